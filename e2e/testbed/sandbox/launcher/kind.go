package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Kind is a kind of launcher. Each launcher of a kind has a name, and below Dir a directory of that
// name.
type Kind struct {
	Dir string
	// What is what errors call one.
	What string
	// Up and Down are the commands of slurmlet-sandbox that make one and end it.
	Up, Down string
}

var goodName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// Check refuses a name that is not one for a launcher.
func (k Kind) Check(name string) error {
	if !goodName.MatchString(name) {
		return fmt.Errorf("%s name %q: want a-z, 0-9 and -, at most 32 characters", k.What, name)
	}
	return nil
}

// Path is the directory of the launcher with a name.
func (k Kind) Path(name string) string { return filepath.Join(k.Dir, name) }

// Has says whether there is a directory of that name. Its launcher may have ended.
func (k Kind) Has(name string) bool {
	_, err := os.Stat(k.Path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Absent is the error that none of that name is up. It lists those that have a directory.
func (k Kind) Absent(name string) error {
	entries, _ := os.ReadDir(k.Dir) // sorted
	var others []string
	for _, e := range entries {
		others = append(others, e.Name())
	}
	if len(others) == 0 {
		return fmt.Errorf("no %s %q is up; make one with %s", k.What, name, k.Up)
	}
	return fmt.Errorf("no %s %q is up; there are: %s", k.What, name, strings.Join(others, " "))
}

// Free makes sure that none of that name is up. Where only the directory of one is left, down
// removes it.
func (k Kind) Free(name string, down func(name string) error) error {
	if !k.Has(name) {
		return nil
	}
	l, err := Read(k.Path(name))
	if err != nil {
		return err
	}
	if l.Alive() {
		return fmt.Errorf("%s %q is up already: use it, or end it with %s", k.What, name, k.Down)
	}
	return down(name)
}

// Remove removes the directory of one that has ended.
func (k Kind) Remove(name string) error {
	if err := os.RemoveAll(k.Path(name)); err != nil {
		return fmt.Errorf("cannot remove %s: %v", k.What, err)
	}
	_ = os.Remove(k.Dir) // stays while there are others
	return nil
}
