package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/devices"
	"github.com/slurmlet/slurmlet/internal/elastic"
	"github.com/slurmlet/slurmlet/internal/nodesize"
)

// readSets reads the directory. changed says whether the sets have.
func (e *elasticNodes) readSets() (changed bool) {
	files, err := readSetFiles(filepath.Join(e.agent.Root, e.agent.Config.ElasticSets))
	e.mu.Lock()
	last, known, told := e.sets, e.read, e.fault
	next := last
	if err == nil {
		next, err = last.Take(files)
		e.read = true
	}
	e.sets, e.fault = next, err
	changed = e.read && (!known || !next.Equal(last))
	e.mu.Unlock()
	if changed {
		e.writeGres(next)
	}
	switch {
	case err != nil && (told == nil || told.Error() != err.Error()):
		e.agent.log(slog.LevelError, "cannot use all elastic node sets; those that were good stay as they are", slog.String("error", err.Error()))
	case err == nil && changed:
		e.agent.log(slog.LevelInfo, "elastic node sets", slog.Any("sets", next.Names()))
	}
	return changed
}

// writeGres writes slurmctld's part of gres.conf, which slurmctld reads with the edit that a change of sets is.
func (e *elasticNodes) writeGres(sets elastic.Sets) {
	gres := nodesize.Gres{Plan: devices.Plan{Lines: sets.GresLines()}}
	if err := gres.Write(gresConf(e.agent.Config)); err != nil {
		e.agent.log(slog.LevelError, "slurmctld refuses records with generic resources", slog.Any("error", err))
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
		name, is := strings.CutSuffix(entry.Name(), elastic.Suffix)
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
