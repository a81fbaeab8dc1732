package slurmconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Source is where configuration files come from.
type Source struct {
	root fs.FS
	dir  string
}

// Dir is a directory of this machine. Absolute names in it are those of the
// machine.
func Dir(dir string) Source {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return Source{os.DirFS("/"), dir}
}

// In is the directory dir of another machine, whose root is given. A test gives
// a fstest.MapFS.
func In(root fs.FS, dir string) Source { return Source{root, path.Join("/", dir)} }

// errMissing: there is no such file.
var errMissing = errors.New("there is no such file")

// absolute is the path of a file that is named absolutely or relative to the
// directory.
func (s Source) absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(s.dir, name)
}

// relative is how positions call a file.
func (s Source) relative(absolute string) string {
	if name, below := strings.CutPrefix(absolute, strings.TrimSuffix(s.dir, "/")+"/"); below {
		return name
	}
	return absolute
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
	name := inFS(absolute)
	info, err := fs.Stat(s.root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errMissing
	case err != nil:
		return "", err
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
