// Package copies keeps a copy of a mounted directory, a ConfigMap or a Secret,
// whose files have the owner and the mode that a daemon insists on.
package copies

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is one copy.
type Dir struct {
	// From is the mounted directory, To the copy, which is nobody else's.
	From, To string
	// Mode is the files'; the copy's directory can be searched by whoever can read them.
	Mode     fs.FileMode
	UID, GID int
	// Wanted picks files by their names; nil: all.
	Wanted func(name string) bool
	// Check refuses what From holds, as a whole: nothing is copied then. It may change the copy's files. nil: all is well.
	Check func(files map[string][]byte) error
}

// ForAgent is a copy whose files are the agent's own user's.
func ForAgent(from, to string, mode fs.FileMode) Dir {
	return Dir{From: from, To: to, Mode: mode, UID: os.Geteuid(), GID: os.Getegid()}
}

// maxSize bounds a file, in bytes: Kubernetes takes no larger Secret or ConfigMap.
const maxSize = 1 << 20

// Sync makes the copy what From holds, and returns the names of the files that
// are other than before, or gone. An error leaves the copy as it was, but for
// files that could be copied.
func (d Dir) Sync() (changed []string, err error) {
	files, err := d.read()
	if err == nil && d.Check != nil {
		err = d.Check(files)
	}
	if err != nil {
		return nil, err
	}
	if err := d.makeDir(); err != nil {
		return nil, err
	}
	var faults []error
	for name, data := range files {
		new, err := d.write(name, data)
		faults = append(faults, err)
		if new {
			changed = append(changed, name)
		}
	}
	gone, err := d.remove(files)
	return append(changed, gone...), errors.Join(append(faults, err)...)
}

// read takes all files of one version: the kubelet swaps "..data".
func (d Dir) read() (map[string][]byte, error) {
	from := d.From
	if data, err := filepath.EvalSymlinks(filepath.Join(from, "..data")); err == nil {
		from = data
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, fmt.Errorf("cannot copy %s: %w", d.From, err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || d.Wanted != nil && !d.Wanted(e.Name()) {
			continue
		}
		path := filepath.Join(from, e.Name())
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if files[e.Name()], err = readFile(path, 0); err != nil {
			return nil, fmt.Errorf("cannot copy %s: %w", filepath.Join(d.From, e.Name()), err)
		}
	}
	return files, nil
}

// readFile waits for nobody, whatever it is that has the name by now.
func readFile(path string, flags int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = fmt.Errorf("it has more than %d bytes", maxSize)
	}
	return data, err
}

func (d Dir) makeDir() error {
	mode := fs.FileMode(0o700)
	if d.Mode&0o004 != 0 {
		mode = 0o755
	}
	if err := os.MkdirAll(d.To, mode); err != nil {
		return fmt.Errorf("cannot make the copy of %s: %w", d.From, err)
	}
	if err := errors.Join(os.Chmod(d.To, mode), os.Chown(d.To, d.UID, d.GID)); err != nil {
		return fmt.Errorf("cannot make the copy of %s: %w", d.From, err)
	}
	return nil
}

// write replaces a file at once. Its content is never readable by others.
func (d Dir) write(name string, data []byte) (changed bool, err error) {
	path := filepath.Join(d.To, name)
	// The copy's owner can put anything in its place.
	if old, err := readFile(path, unix.O_NOFOLLOW); err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	f, err := os.CreateTemp(d.To, ".new-")
	if err != nil {
		return false, fmt.Errorf("cannot copy %s: %w", name, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chown(d.UID, d.GID), f.Chmod(d.Mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return false, fmt.Errorf("cannot copy %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	return true, nil
}

// remove removes what From holds no more.
func (d Dir) remove(files map[string][]byte) (gone []string, err error) {
	entries, err := os.ReadDir(d.To)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the copy of %s: %w", d.From, err)
	}
	var faults []error
	for _, e := range entries {
		if _, there := files[e.Name()]; there || e.IsDir() {
			continue
		}
		faults = append(faults, os.Remove(filepath.Join(d.To, e.Name())))
		gone = append(gone, e.Name())
	}
	return gone, errors.Join(faults...)
}
