package elastic

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/gres"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
)

// readSets reads the directory. changed says whether the sets have.
func (r *Reconciler) readSets() (changed bool) {
	files, err := readSetFiles(r.Dir)
	r.mu.Lock()
	last, known, logged := r.sets, r.read, r.fault
	next := last
	if err == nil {
		next, err = last.Take(files)
		r.read = true
	}
	r.sets, r.fault = next, err
	changed = r.read && (!known || !next.Equal(last))
	r.mu.Unlock()
	if changed {
		r.writeGres(next)
	}
	switch {
	case err != nil && (logged == nil || logged.Error() != err.Error()):
		r.Log(slog.LevelError, "cannot use all elastic node sets; those that were good stay as they are", slog.String("error", err.Error()))
	case err == nil && changed:
		r.Log(slog.LevelInfo, "elastic node sets", slog.Any("sets", next.Names()))
	}
	return changed
}

// writeGres writes slurmctld's part of gres.conf, which slurmctld reads with the edit that a change of sets is.
func (r *Reconciler) writeGres(sets planner.Sets) {
	if err := gres.WriteConf(r.GresConf, sets.GresLines()); err != nil {
		r.Log(slog.LevelError, "slurmctld refuses records with generic resources", slog.Any("error", err))
	}
}

// mostSetFile bounds a file.
const mostSetFile = 1 << 20

// readSetFiles reads the files of a mounted ConfigMap.
func readSetFiles(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("SLURMLET_ELASTIC_SETS: %w", err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), planner.Suffix)
		if !is || strings.HasPrefix(name, ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err == nil && info.Size() > mostSetFile {
			err = fmt.Errorf("%s: want at most %d bytes, not %d", entry.Name(), mostSetFile, info.Size())
		}
		var text []byte
		if err == nil {
			text, err = os.ReadFile(filepath.Join(dir, entry.Name()))
		}
		if err != nil {
			return nil, fmt.Errorf("SLURMLET_ELASTIC_SETS: %w", err)
		}
		files[name] = text
	}
	return files, nil
}
