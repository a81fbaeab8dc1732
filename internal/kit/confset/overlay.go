package confset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Overlay is what takes the place of a directory's files. The directory's keys stay.
type Overlay struct {
	Dir   string
	Files map[string]string
}

// usualMode is a ConfigMap's files', where the directory has no file.
const usualMode fs.FileMode = 0o644

// lay takes a directory's keys by take, and the overlay's files as the kubelet would write them: a
// volume's files have one mode, and a file that is there keeps its own.
func (r *reader) lay(over *Overlay, take func(path, name string, entry fs.DirEntry) error) func(path, name string, entry fs.DirEntry) error {
	modes := map[string]fs.FileMode{}
	if entries, err := Texts(over.Dir); err == nil {
		for name := range entries {
			if info, err := os.Stat(filepath.Join(over.Dir, name)); err == nil {
				modes[name] = info.Mode().Perm()
			}
		}
	}
	usual, known := modes[Main]
	if !known {
		usual = usualMode
	}
	for _, name := range slices.Sorted(maps.Keys(over.Files)) {
		if passedOver(name) || IsKey(name) {
			continue
		}
		data := []byte(over.Files[name])
		mode, there := modes[name]
		if !there {
			mode = usual
		}
		if r.add(over.Dir, name, func() ([]byte, fs.FileMode, error) {
			if len(data) > MaxFile {
				return nil, 0, fmt.Errorf("%s: want at most %d bytes, not %d", filepath.Join(over.Dir, name), MaxFile, len(data))
			}
			return data, mode, checkText(filepath.Join(over.Dir, name), data)
		}) != nil {
			break // there is too much
		}
	}
	return func(path, name string, entry fs.DirEntry) error {
		if IsKey(name) {
			return take(path, name, entry)
		}
		return nil
	}
}

// Texts are a directory's files without its keys, whatever they hold. It reads what Read would.
func Texts(dir string) (map[string][]byte, error) {
	err := errors.New("the files change all the time")
	for range readTries {
		var before, after string
		if before, err = signature([]string{dir}); err != nil {
			continue
		}
		var found map[string][]byte
		found, err = texts(dir)
		if after, _ = signature([]string{dir}); before == after {
			return found, err
		}
	}
	return nil, fmt.Errorf("cannot read %s: %w", dir, err)
}

func texts(dir string) (map[string][]byte, error) {
	found, size := map[string][]byte{}, 0
	err := walk(dir, func(path, name string, entry fs.DirEntry) error {
		if entry.IsDir() || IsKey(name) {
			return nil
		}
		data, _, err := read(at(path), path)
		if size += len(data); size > MaxBytes || len(found) >= MaxFiles {
			return fmt.Errorf("%s holds too much", dir)
		}
		found[name] = data
		return err
	})
	return found, err
}

// TextsDigest distinguishes contents of a directory, or of a ConfigMap, from one another: by names and bytes.
// Files that Read passes over do not count.
func TextsDigest[T ~string | ~[]byte](files map[string]T) string {
	var all [][]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !passedOver(name) {
			all = append(all, []byte(name), []byte(files[name]))
		}
	}
	return Digest(all...)
}
