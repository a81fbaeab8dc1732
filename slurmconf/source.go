package slurmconf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Source is where configuration files come from: a directory of some machine.
// Relative names in it are relative to the directory, absolute ones are the
// machine's.
type Source struct {
	root fs.FS
	// dir is the directory, and as is what files with absolute names take it for.
	dir, as string
	names   map[Kind]string
}

// Dir is a directory of this machine.
func Dir(dir string) Source {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return Source{root: os.DirFS("/"), dir: dir, as: dir}
}

// In is a directory of another machine, whose root is given: that of a
// container, or a fstest.MapFS.
func In(root fs.FS, dir string) Source {
	dir = path.Join("/", dir)
	return Source{root: root, dir: dir, as: dir}
}

// As is the source as it will be when it lies in another directory: absolute
// names below that are looked for here.
func (s Source) As(dir string) Source {
	s.as = path.Join("/", dir)
	return s
}

// Named is the source with another file in the place of one of Slurm's: with
// slurmctld -f candidate.conf, that is slurm.conf.
func (s Source) Named(kind Kind, file string) Source {
	s.names = maps.Clone(s.names)
	if s.names == nil {
		s.names = map[Kind]string{}
	}
	s.names[kind] = file
	return s
}

// errMissing: there is no such file. errDirectory: it is one, of which Slurm reads
// nothing.
var (
	errMissing   = errors.New("there is no such file")
	errDirectory = errors.New("is a directory, of which Slurm reads nothing")
)

// nameOf is the name of one of Slurm's files.
func (s Source) nameOf(kind Kind) string { return cmp.Or(s.names[kind], string(kind)) }

// absolute is the path of a file that is named absolutely or relative to the
// directory.
func (s Source) absolute(name string) string {
	if !path.IsAbs(name) {
		return path.Join(s.dir, name)
	}
	if rest, below := under(s.as, path.Clean(name)); below {
		return path.Join(s.dir, rest)
	}
	return path.Clean(name)
}

// relative returns a file's name in positions of findings.
func (s Source) relative(absolute string) string {
	if name, below := under(s.dir, absolute); below {
		return name
	}
	return absolute
}

// under is a path relative to a directory, if it is below that.
func under(dir, absolute string) (string, bool) {
	return strings.CutPrefix(absolute, strings.TrimSuffix(dir, "/")+"/")
}

// inFS is the name of an absolute path in an fs.FS.
func inFS(absolute string) string {
	if name := strings.TrimPrefix(absolute, "/"); name != "" {
		return name
	}
	return "."
}

// read reads a file, which must be a regular one: a FIFO would be waited for.
// limit is in bytes.
func (s Source) read(absolute string, limit int64) (string, error) {
	if s.root == nil {
		return "", errors.New("there is no source")
	}
	name := inFS(absolute)
	info, err := fs.Stat(s.root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errMissing
	case err != nil:
		return "", err
	case info.IsDir():
		return "", errDirectory
	case !info.Mode().IsRegular():
		return "", errors.New("is not a regular file")
	case info.Size() > limit:
		return "", fmt.Errorf("has %d bytes, want at most %d", info.Size(), limit)
	}
	file, err := s.root.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	// It can grow meanwhile.
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("has more than %d bytes", limit)
	}
	return string(content), err
}

// glob is the files that a pattern with an absolute path matches, in order.
func (s Source) glob(pattern string) ([]string, error) {
	names, err := fs.Glob(s.root, inFS(pattern))
	for i := range names {
		names[i] = "/" + names[i]
	}
	return names, err
}
