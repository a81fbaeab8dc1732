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
	"sync"
)

// Store is a place for sets of which one is current: the link Name in Dir/Sub. A
// set is staged beside it first, whole, and becomes current by one rename.
//
// The directories may be those of a user whom root must not trust: everything
// happens below Dir (os.Root), and a set that is staged is given to its owner last.
type Store struct {
	Dir string
	// Sub is a directory in Dir, which Stage makes; empty: Dir itself.
	Sub, Name string
	// UID and GID are the files' owner.
	UID, GID int
	// Lasting: what is current must be so after a crash of the machine, too, and
	// has no links to keys.
	Lasting bool
	// last is the number of the set that was staged last. No number is used twice, because a late Drop would remove
	// another set. numbering is held while it grows.
	last      int
	numbering sync.Mutex
}

// Current is the path through which the current set is seen.
func (s *Store) Current() string { return filepath.Join(s.Dir, s.Sub, s.Name) }

func (s *Store) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil || s.Sub == "" {
		return root, err
	}
	defer root.Close()
	return root.OpenRoot(s.Sub)
}

func (s *Store) openOrMake() (*os.Root, error) {
	if s.Sub == "" {
		return s.open()
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.Mkdir(s.Sub, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return root.OpenRoot(s.Sub)
}

// Stage writes a set beside the current one and returns its directory. complete, if
// there is one, adds to it before its owner has it.
func (s *Store) Stage(set *Set, complete func(*os.Root) error) (dir string, err error) {
	root, err := s.openOrMake()
	if err != nil {
		return "", fmt.Errorf("cannot stage the configuration: %v", err)
	}
	defer root.Close()
	number, err := s.next(root)
	if err == nil {
		err = s.write(root, s.numbered(number), set, complete)
	}
	if err != nil {
		return "", fmt.Errorf("cannot stage the configuration: %v", err)
	}
	return s.Current() + "." + strconv.Itoa(number), nil
}

// Swap makes a staged set the current one and removes all others, but for the
// one before it: somebody may be reading it.
func (s *Store) Swap(dir string) error {
	root, err := s.open()
	if err != nil {
		return fmt.Errorf("cannot put the configuration in place: %v", err)
	}
	defer root.Close()
	former, _ := root.Readlink(s.Name)
	next := s.Name + ".new"
	if _, err := root.Stat(filepath.Base(dir)); err != nil { // else nothing would be current
		return fmt.Errorf("cannot put the configuration in place: %v", err)
	}
	if err = root.Remove(next); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = root.Symlink(filepath.Base(dir), next)
	}
	if err == nil {
		err = root.Rename(next, s.Name)
	}
	if err == nil && s.Lasting {
		err = syncDir(root)
	}
	if err != nil {
		return fmt.Errorf("cannot put the configuration in place: %v", err)
	}
	s.clear(root, filepath.Base(dir), former)
	return nil
}

// Drop removes a staged set that will not be current.
func (s *Store) Drop(dir string) {
	if root, err := s.open(); err == nil {
		defer root.Close()
		_ = root.RemoveAll(filepath.Base(dir))
	}
}

// Load reads the current set without its keys, nil when there is none. A link in it
// leads nowhere.
func (s *Store) Load() (*Set, error) {
	set, err := s.load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the last good configuration: %v", err)
	}
	return set, nil
}

func (s *Store) load() (*Set, error) {
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	target, err := root.Readlink(s.Name)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(target, s.Name+".") || filepath.Base(target) != target {
		return nil, fmt.Errorf("%s is a link to %s, which is no set of this agent's", s.Current(), target)
	}
	dir, err := root.OpenRoot(target)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return readRoot(dir)
}

func (s *Store) numbered(number int) string { return s.Name + "." + strconv.Itoa(number) }

// numbers are those of the staged sets, sorted.
func (s *Store) numbers(root *os.Root) ([]int, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
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

func (s *Store) next(root *os.Root) (int, error) {
	s.numbering.Lock()
	defer s.numbering.Unlock()
	numbers, err := s.numbers(root)
	if err == nil {
		s.last = slices.Max(append(numbers, s.last)) + 1
	}
	return s.last, err
}

func (s *Store) clear(root *os.Root, keep ...string) {
	numbers, _ := s.numbers(root)
	for _, n := range numbers {
		if name := s.numbered(n); !slices.Contains(keep, name) {
			_ = root.RemoveAll(name)
		}
	}
}

func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
