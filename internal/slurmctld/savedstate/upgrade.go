package savedstate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// versioned are files that begin as job_state does. The newest of them says which Slurm has saved: a slurmctld that is
// killed at its first save leaves files of both versions.
var versioned = []string{"job_state", "job_state.old", "node_state", "part_state", "resv_state"}

// protocol is the number of a release line in what Slurm saves: a byte that grows by one with each line.
type protocol uint16

// first2405 is the number of 24.05, from which on the lines are of May and November.
const first2405 = 41

// protocolOf is the number of a line such as "26.05", 0 for none.
func protocolOf(line string) protocol {
	year, month, _ := strings.Cut(line, ".")
	y, err := strconv.Atoi(year)
	if err != nil || y < 24 || month != "05" && month != "11" {
		return 0
	}
	n := first2405 + 2*(y-24)
	if month == "11" {
		n++
	}
	return protocol(n)
}

func (p protocol) String() string {
	if p < first2405 {
		return "before 24.05"
	}
	n := int(p) - first2405
	return fmt.Sprintf("%d.%s", 24+n/2, []string{"05", "11"}[n%2])
}

// savedBy is the newest version that has saved something in a directory, 0 where no file says one. slurmctld itself refuses
// a file whose header nobody can read.
func savedBy(root *os.Root) (newest protocol, err error) {
	for _, name := range versioned {
		f, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if h, err := parseHeader(f); err == nil {
			newest = max(newest, h.protocol)
		}
		_ = f.Close() // it was read only
	}
	return newest, nil
}

// admit says whether slurmctld of a line may be started with the state in dir. One of a newer line converts the state
// with its first save, for which there must be leave (Upgrade), and a snapshot first. An older one cannot read it.
func (s *Store) admit(root *os.Root, dir, line string) error {
	saved, err := savedBy(root)
	own := protocolOf(line)
	switch {
	case err != nil:
		return fmt.Errorf("cannot tell of which Slurm the state in %s is: %w", dir, err)
	case saved == 0 || saved == own:
		return nil
	case own == 0:
		return fmt.Errorf("cannot tell whether this slurmctld would convert the state in %s, which is of Slurm %s: "+
			"its version is %q", dir, saved, line)
	case saved > own:
		return &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf(
			"the state in %s is of Slurm %s, and this is Slurm %s, which cannot read it: run Slurm %s again, or go back "+
				"to what was before%s (docs/run/upgrade.md)", dir, saved, own, saved, wayBack(root, dir, own),
		)}
	case !s.Upgrade:
		return &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf(
			"the state in %s is of Slurm %s, and this is Slurm %s, which would convert it for good: set slurm.upgrade=true "+
				"(SLURMLET_UPGRADE=on) to have it, or image.slurm=%s to stay (docs/run/upgrade.md)", dir, saved, own, saved,
		)}
	}
	name, err := s.snapshot(root, saved, own)
	if err != nil {
		return fmt.Errorf("cannot keep the state in %s before Slurm %s converts it: %w", dir, own, err)
	}
	s.Log(slog.LevelWarn, "slurmctld converts what an older version has saved", slog.String("from", saved.String()),
		slog.String("to", own.String()), slog.String("kept", path.Join(dir, name)))
	return nil
}

const snapshotsName = dirName + "/before-upgrades"

// snapshots are the names of those that a slurmctld of a line can read, the oldest first.
func snapshots(root *os.Root, own protocol) (names []string) {
	entries, _ := fs.ReadDir(root.FS(), snapshotsName) // there may be none
	for _, e := range entries {
		from, _, _ := strings.Cut(e.Name(), "-")
		if n := protocolOf(from); e.IsDir() && n != 0 && n <= own && !strings.HasSuffix(e.Name(), unfinished) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(timeIn(a), timeIn(b)) })
	return names
}

// timeIn is the end of a snapshot's name: "24.11-to-26.05-20261128T073000Z".
func timeIn(name string) string { return name[strings.LastIndex(name, "-")+1:] }

// unfinished ends the name of a snapshot that is being made.
const unfinished = ".new"

func wayBack(root *os.Root, dir string, own protocol) string {
	names := snapshots(root, own)
	if len(names) == 0 {
		return ", of which there is no snapshot here"
	}
	return fmt.Sprintf(", which %s has: jobs since then are lost", path.Join(dir, snapshotsName, names[len(names)-1]))
}

// snapshot keeps what is in root, as links: slurmctld replaces its files and changes none in place. A start that failed
// before slurmctld saved anything has left the same one.
func (s *Store) snapshot(root *os.Root, from, to protocol) (name string, err error) {
	if err := s.mkdir(root, snapshotsName, 0o700); err != nil {
		return "", err
	}
	if names := snapshots(root, from); len(names) > 0 {
		last := path.Join(snapshotsName, names[len(names)-1])
		if strings.HasPrefix(path.Base(last), fmt.Sprintf("%s-to-%s-", from, to)) && isSame(root, last) {
			return last, nil
		}
	}
	name = path.Join(snapshotsName, fmt.Sprintf("%s-to-%s-%s", from, to, time.Now().UTC().Format("20060102T150405Z")))
	if err := root.RemoveAll(name + unfinished); err != nil {
		return "", err
	}
	if err := s.mkdir(root, name+unfinished, 0o700); err != nil {
		return "", err
	}
	err = fs.WalkDir(root.FS(), ".", func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case at == dirName:
			return fs.SkipDir
		case at == ".":
			return nil
		case e.IsDir():
			return s.mkdir(root, path.Join(name+unfinished, at), 0o700)
		case e.Type().IsRegular():
			return s.link(root, at, path.Join(name+unfinished, at))
		}
		return nil // slurmctld has no other files
	})
	if err != nil {
		return "", errors.Join(err, root.RemoveAll(name+unfinished))
	}
	return name, errors.Join(root.Rename(name+unfinished, name), syncDir(root, snapshotsName))
}

// isSame says whether slurmctld has saved nothing since a snapshot.
func isSame(root *os.Root, snapshot string) bool {
	then, err := root.OpenRoot(snapshot)
	if err != nil {
		return false
	}
	defer then.Close()
	before, err := readHeader(then)
	now, nowErr := readHeader(root)
	return err == nil && nowErr == nil && before == now
}
