package save

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Resolve returns the path of the file that a save makes: an absolute path, through the links of a file that is there,
// as enroot takes it. What can be known to fail when the save begins is an error.
func Resolve(path string) (string, error) {
	wrong := func(err error) (string, error) { return "", fmt.Errorf("--container-save=%s: %w", path, err) }
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		var dir string
		dir, err = filepath.EvalSymlinks(filepath.Dir(path))
		real = filepath.Join(dir, filepath.Base(path))
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return wrong(err)
	}
	if info, err := os.Stat(real); err == nil && !info.Mode().IsRegular() {
		return wrong(errors.New("it is there, and is no file"))
	}
	dir := filepath.Dir(real)
	if info, err := os.Stat(dir); err != nil {
		return wrong(err)
	} else if !info.IsDir() {
		return wrong(fmt.Errorf("%s is no directory", dir))
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return wrong(fmt.Errorf("cannot write to %s: %w", dir, err))
	}
	return real, nil
}

// file is the one that a save makes, until it is whole.
type file struct {
	*os.File
	path string
	// temporary is its name until then; empty: it has none, and ends with the process.
	temporary string
}

// prefix begins the names of files that are not whole.
const prefix = ".slurmlet-save-"

// create makes a file without a name where the file system knows such files, which NFS does not.
func create(path, node string) (*file, error) {
	dir := filepath.Dir(path)
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err == nil {
		return &file{File: os.NewFile(uintptr(fd), path), path: path}, nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("cannot write to %s: %w", dir, err)
	}
	return createNamed(path, node)
}

// createNamed makes a file with a name that nobody else takes. It removes what a killed save of this node has left: such
// a file is locked by nobody, and old.
func createNamed(path, node string) (*file, error) {
	dir := filepath.Dir(path)
	left, _ := filepath.Glob(filepath.Join(escaped(dir), prefix+escaped(node)+"-*")) // the pattern is right
	for _, old := range left {
		removeLeft(old)
	}
	name := temporary(dir, node)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot write to %s: %w", dir, err)
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // a file system may have no locks, and its time protects the file then
	return &file{f, path, name}, nil
}

// leastAge is how old a file that nobody has locked is at least before it is removed.
const leastAge = time.Hour

func removeLeft(name string) {
	info, err := os.Lstat(name)
	if err != nil || time.Since(info.ModTime()) < leastAge {
		return
	}
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = os.Remove(name)
	}
}

func temporary(dir, node string) string { return filepath.Join(dir, prefix+node+"-"+rand.Text()) }

// escaped is a path as a pattern takes it.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// finish gives the file its path, in place of what is there. Some file systems tell of a full disk here.
func (f *file) finish(node string) error {
	err := f.Sync()
	if err == nil && f.temporary == "" {
		name := temporary(filepath.Dir(f.path), node)
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if err == nil {
			f.temporary = name
		}
	}
	if err == nil {
		err = os.Rename(f.temporary, f.path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", f.path, err)
	}
	f.temporary = ""
	return nil
}

// close leaves nothing of a file that is not finished.
func (f *file) close() {
	if f.temporary != "" {
		_ = os.Remove(f.temporary)
	}
	_ = f.Close()
}
