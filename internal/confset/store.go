package confset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Store is a place for sets of which one is current: the link Name in Dir. A
// set is staged beside it first, whole, and becomes current by one rename.
type Store struct {
	Dir, Name string
	// UID and GID are the files' owner.
	UID, GID int
	// Lasting: what is current must be so after a crash of the machine, too, and
	// has no links to keys.
	Lasting bool
}

// Current is the path through which the current set is seen.
func (s Store) Current() string { return filepath.Join(s.Dir, s.Name) }

// Stage writes a set beside the current one and returns its directory.
func (s Store) Stage(set *Set) (dir string, err error) {
	numbers, err := s.numbers()
	if err != nil {
		return "", fmt.Errorf("cannot stage the configuration: %v", err)
	}
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	dir = s.path(next)
	if err := s.write(dir, set); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("cannot stage the configuration: %v", err)
	}
	return dir, nil
}

// Swap makes a staged set the current one and removes all others, but for the
// one before it: somebody may be reading it.
func (s Store) Swap(dir string) error {
	former, _ := os.Readlink(s.Current())
	next := s.Current() + ".new"
	err := os.Remove(next)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Symlink(filepath.Base(dir), next)
	}
	if err == nil {
		err = os.Rename(next, s.Current())
	}
	if err == nil && s.Lasting {
		err = syncDir(s.Dir)
	}
	if err != nil {
		return fmt.Errorf("cannot put the configuration in place: %v", err)
	}
	s.clear(filepath.Base(dir), former)
	return nil
}

// Drop removes a staged set that will not be current.
func (s Store) Drop(dir string) { _ = os.RemoveAll(dir) }

// Load reads the current set, nil when there is none.
func (s Store) Load() (*Set, error) {
	target, err := filepath.EvalSymlinks(s.Current())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the last good configuration: %v", err)
	}
	return Read([]string{target})
}

func (s Store) path(number int) string { return s.Current() + "." + strconv.Itoa(number) }

// numbers are those of the staged sets, sorted.
func (s Store) numbers() ([]int, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		text, found := strings.CutPrefix(e.Name(), s.Name+".")
		if n, err := strconv.Atoi(text); found && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (s Store) clear(keep ...string) {
	numbers, _ := s.numbers()
	for _, n := range numbers {
		if dir := s.path(n); filepath.Base(dir) != keep[0] && filepath.Base(dir) != keep[1] {
			_ = os.RemoveAll(dir)
		}
	}
}

func (s Store) write(dir string, set *Set) error {
	if err := s.makeDir(dir); err != nil {
		return err
	}
	for _, f := range set.Files {
		if err := s.writeFile(filepath.Join(dir, f.Name), f); err != nil {
			return err
		}
	}
	if s.Lasting {
		return syncDir(dir)
	}
	for _, key := range set.Keys {
		path := filepath.Join(dir, key.Name)
		if err := errors.Join(s.makeDir(filepath.Dir(path)), os.Symlink(key.Target, path)); err != nil {
			return err
		}
	}
	return nil
}

func (s Store) makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chown(dir, s.UID, s.GID)
}

func (s Store) writeFile(path string, f File) error {
	if err := s.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(f.Data)
	err = errors.Join(err, out.Chown(s.UID, s.GID), out.Chmod(f.Mode))
	if s.Lasting {
		err = errors.Join(err, out.Sync())
	}
	return errors.Join(err, out.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
