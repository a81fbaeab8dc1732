package confset

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// What a set may hold. A ConfigMap holds 1 MiB, and a slurm.conf that names
// 15,000 nodes one by one has about 3 MiB.
const (
	MaxFile  = 8 << 20
	MaxBytes = 32 << 20
	MaxFiles = 1000
)

// Main is the file without which there is no configuration.
const Main = "slurm.conf"

// readTries is how often a set that changes while it is read is read again.
const readTries = 5

// Read reads all files of the directories as one set. Names that begin with a
// dot, and what editors leave, are no configuration; a name in two of the
// directories is a fault. A set that changes meanwhile is read again. The error
// holds every fault, each with the path of its file.
func Read(dirs []string) (*Set, error) {
	var set *Set
	var err error
	for range readTries {
		var before, after string
		if before, err = signature(dirs); err != nil {
			continue
		}
		set, err = readOnce(dirs)
		if after, _ = signature(dirs); before == after {
			return set, err
		}
		if err == nil {
			err = fmt.Errorf("cannot read %s: the files change all the time", strings.Join(dirs, ", "))
		}
	}
	return nil, err
}

// Dirs are the directories that hold the files of a source, itself first:
// whoever waits for a change has to watch all of them.
func Dirs(dir string) ([]string, error) {
	var all []string
	err := walk(dir, func(path, name string, entry fs.DirEntry) error {
		if entry.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	if root := resolve(dir); root != dir {
		all = append([]string{dir}, all...)
	}
	return all, err
}

func readOnce(dirs []string) (*Set, error) {
	r := reader{from: map[string]string{}}
	for _, dir := range dirs {
		take := func(path, name string, entry fs.DirEntry) error { return r.take(dir, name, entry, at(path)) }
		if err := walk(dir, take); err != nil {
			r.fault(err)
		}
	}
	return r.set(dirs)
}

// readRoot reads the files of one directory, and nothing outside of it; keys are
// links out of it.
func readRoot(dir *os.Root) (*Set, error) {
	r := reader{from: map[string]string{}}
	err := fs.WalkDir(dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." || IsKey(name) {
			return err
		}
		if passedOver(entry.Name()) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return r.take(dir.Name(), name, entry, func() (*os.File, error) {
			return dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		})
	})
	if err != nil {
		r.fault(fmt.Errorf("cannot read the configuration: %v", err))
	}
	return r.set([]string{dir.Name()})
}

func (r *reader) set(dirs []string) (*Set, error) {
	main := slices.IndexFunc(r.files, func(f File) bool { return f.Name == Main })
	switch {
	case len(r.faults) > 0:
	case main < 0:
		r.fault(fmt.Errorf("cannot find %s in %s", Main, strings.Join(dirs, ", ")))
	case len(bytes.TrimSpace(r.files[main].Data)) == 0:
		r.fault(fmt.Errorf("%s: the file is empty", r.files[main].Source))
	}
	if err := errors.Join(r.faults...); err != nil {
		return nil, err
	}
	return newSet(r.files, r.keys), nil
}

// resolve follows the link that the kubelet swaps (..data), once for the whole
// set: through the files' own links it could be read half old and half new.
func resolve(dir string) string {
	if target, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		return target
	}
	return dir
}

func walk(dir string, visit func(path, name string, entry fs.DirEntry) error) error {
	root := resolve(dir)
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("cannot read the configuration: %v", err)
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case path == root:
		case passedOver(entry.Name()) && entry.IsDir():
			return fs.SkipDir
		case passedOver(entry.Name()):
			return nil
		}
		return visit(path, name, entry)
	})
}

// passedOver: hidden files (the kubelet's, and those of vim and git), and what
// emacs, vim and dpkg leave beside a file.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") ||
		strings.HasSuffix(name, ".swp") || strings.Contains(name, ".dpkg-") || name == "4913"
}

// signature changes with every change of the files.
func signature(dirs []string) (string, error) {
	var text strings.Builder
	var faults []error
	for _, dir := range dirs {
		faults = append(faults, walk(dir, func(path, _ string, _ fs.DirEntry) error {
			info, err := os.Stat(path)
			if err != nil {
				return fmt.Errorf("cannot read the configuration: %v", err)
			}
			inode := uint64(0)
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				inode = s.Ino
			}
			if !info.IsDir() {
				fmt.Fprintln(&text, path, inode, info.Size(), info.Mode(), info.ModTime().UnixNano())
			}
			return nil
		}))
	}
	return text.String(), errors.Join(faults...)
}

type reader struct {
	files  []File
	keys   []Key
	bytes  int64
	from   map[string]string
	faults []error
}

func (r *reader) fault(err error) { r.faults = append(r.faults, err) }

func (r *reader) take(dir, name string, entry fs.DirEntry, open opener) error {
	if entry.IsDir() {
		return nil
	}
	source := filepath.Join(dir, name)
	if other, twice := r.from[name]; twice {
		r.fault(fmt.Errorf("%s: there is %s too, and a set has one file of a name", source, other))
		return nil
	}
	r.from[name] = source
	data, mode, err := readFile(open, source)
	r.bytes += int64(len(data))
	switch {
	case err != nil:
		r.fault(err)
	case len(r.from) > MaxFiles:
		r.fault(fmt.Errorf("%s: want at most %d files", dir, MaxFiles))
		return fs.SkipAll
	case r.bytes > MaxBytes:
		r.fault(fmt.Errorf("%s: the files have more than %d bytes in all", source, MaxBytes))
		return fs.SkipAll
	case IsKey(name):
		r.keys = append(r.keys, Key{Name: name, Target: source, digest: sha256.Sum256(data)})
	default:
		r.files = append(r.files, File{Name: name, Data: data, Mode: executable(mode, data), Source: source})
	}
	return nil
}

// executable: whoever may read a script may run it, and nobody runs anything else. A
// ConfigMap's volume has one mode for all, mostly 0644: with that, slurmctld could not
// start PrologSlurmctld, nor would the nodes get an executable Prolog.
func executable(mode fs.FileMode, data []byte) fs.FileMode {
	mode &^= 0o111
	if bytes.HasPrefix(data, []byte("#!")) {
		mode |= mode & 0o444 >> 2
	}
	return mode
}

// opener opens a file, and never waits for a pipe's other end.
type opener func() (*os.File, error)

func at(path string) opener {
	return func() (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) }
}

// readFile never reads more than it may, and takes no text that Slurm would read in part.
func readFile(open opener, source string) ([]byte, fs.FileMode, error) {
	data, mode, err := read(open, source)
	if err == nil {
		err = checkText(source, data)
	}
	return data, mode, err
}

func read(open opener, source string) ([]byte, fs.FileMode, error) {
	f, err := open()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: cannot read it: %v", source, errors.Unwrap(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("%s: cannot read it: %v", source, err)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s: want a file, not a %v", source, info.Mode().Type())
	case info.Size() > MaxFile:
		return nil, 0, fmt.Errorf("%s: want at most %d bytes, not %d", source, MaxFile, info.Size())
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("%s: cannot read it: %v", source, err)
	case len(data) > MaxFile:
		return nil, 0, fmt.Errorf("%s: want at most %d bytes", source, MaxFile)
	}
	return data, info.Mode().Perm(), nil
}

// checkText: Slurm reads a configuration file no further than its first NUL.
func checkText(source string, data []byte) error {
	if !slices.Contains([]string{".conf", ".yaml", ".lua"}, filepath.Ext(source)) {
		return nil
	}
	if text, _, found := bytes.Cut(data, []byte{0}); found {
		return fmt.Errorf("%s:%d: want text, not the byte 0", source, 1+bytes.Count(text, []byte("\n")))
	}
	return nil
}

// ReadKeys reads the directories' keys alone, as far as they can be read.
func ReadKeys(dirs []string) *Set {
	r := reader{from: map[string]string{}}
	for _, dir := range dirs {
		_ = walk(dir, func(path, name string, entry fs.DirEntry) error {
			if IsKey(name) {
				return r.take(dir, name, entry, at(path))
			}
			return nil
		})
	}
	return newSet(nil, r.keys)
}

// Contents reads the files of a directory that have the names, or all if none
// are given, as far as they can be read.
func Contents(dir string, names []string) map[string][]byte {
	if names == nil {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	found := map[string][]byte{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if data, _, err := readFile(at(path), path); err == nil {
			found[name] = data
		}
	}
	return found
}
