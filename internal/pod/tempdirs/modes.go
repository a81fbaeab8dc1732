// Package tempdirs looks after the directories of a container in which all users write, and after
// those of the daemons beside them.
package tempdirs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Places are directories, as paths from the root of a file system. One that is not there is left out.
type Places struct {
	// Shared are those in which every user may make files, such as /tmp. With the sticky bit nobody
	// but a file's owner removes or renames it (sticky(7)).
	Shared []string
	// Daemons are those in which only the daemons make files, such as slurmd's spool directory.
	Daemons []string
}

// Change is the mode of a directory that was another one before.
type Change struct {
	Path        string
	Before, Now uint32 // the permission bits of st_mode
}

func (c Change) String() string {
	return fmt.Sprintf("%s had mode %04o and has %04o now", c.Path, c.Before, c.Now)
}

const (
	sticky      = unix.S_ISVTX
	othersWrite = 0o022 // group and others
)

// Secure gives each place, and each directory above one, a mode in which no user can remove or replace
// what somebody else has there. The kubelet makes each emptyDir with mode 0777. The error names the
// directories that stay open to all because their mode cannot be changed. A directory of a file
// system that is mounted read-only is none of them.
func Secure(root string, p Places) ([]Change, error) {
	s := securing{root: root, chmod: unix.Chmod}
	for _, path := range p.Daemons {
		s.above(path)
		s.place(path, func(mode uint32) uint32 { return mode &^ othersWrite })
	}
	for _, path := range p.Shared {
		s.above(path)
		s.place(path, shared)
	}
	return s.changes, errors.Join(s.faults...)
}

// shared is the mode of a directory in which several users write.
func shared(mode uint32) uint32 {
	if mode&othersWrite != 0 {
		return mode | sticky
	}
	return mode
}

type securing struct {
	root    string
	chmod   func(path string, mode uint32) error
	changes []Change
	faults  []error
}

// above is for the directories that lead to a place: who may rename one of them replaces the place.
func (s *securing) above(path string) {
	var all []string
	for dir := filepath.Dir(path); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		all = append(all, dir)
	}
	for _, dir := range slices.Backward(all) {
		s.place(dir, shared)
	}
}

func (s *securing) place(path string, want func(mode uint32) uint32) {
	real, err := filepath.EvalSymlinks(filepath.Join(s.root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = s.one(path, real, want)
	}
	if err != nil {
		s.faults = append(s.faults, fmt.Errorf("cannot keep the files in %s from other users: %w", path, err))
	}
}

func (s *securing) one(path, real string, want func(mode uint32) uint32) error {
	var is unix.Stat_t
	if err := unix.Stat(real, &is); err != nil {
		return err
	}
	mode := is.Mode & 0o7777
	if is.Mode&unix.S_IFMT != unix.S_IFDIR || want(mode) == mode || readOnly(real) {
		return nil
	}
	if err := s.chmod(real, want(mode)); err != nil {
		return fmt.Errorf("it has mode %04o, and chmod %04o fails: %w", mode, want(mode), err)
	}
	s.changes = append(s.changes, Change{Path: path, Before: mode, Now: want(mode)})
	return nil
}

func readOnly(path string) bool {
	var is unix.Statfs_t
	return unix.Statfs(path, &is) == nil && is.Flags&unix.ST_RDONLY != 0
}

// Unique leaves out places that are given twice.
func Unique(paths ...string) []string {
	var all []string
	for _, path := range paths {
		if clean := filepath.Clean(path); path != "" && strings.HasPrefix(clean, "/") && !slices.Contains(all, clean) {
			all = append(all, clean)
		}
	}
	return all
}

// Existing are the shared places that are directories, without links, each once, as paths from root.
func (p Places) Existing(root string) (all []string) {
	for _, path := range p.Shared {
		real, err := filepath.EvalSymlinks(filepath.Join(root, path))
		if err != nil {
			continue
		}
		path = "/" + strings.TrimPrefix(strings.TrimPrefix(real, filepath.Clean(root)), "/")
		if is, err := os.Stat(real); err == nil && is.IsDir() && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}
