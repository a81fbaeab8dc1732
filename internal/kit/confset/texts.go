package confset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

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

// TextsDigest tells contents of a directory, or of a ConfigMap, from one another: by names and bytes. Keys do not count,
// and neither do files that Read passes over.
func TextsDigest[T ~string | ~[]byte](files map[string]T) string {
	var all [][]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !passedOver(name) && !IsKey(name) {
			all = append(all, []byte(name), []byte(files[name]))
		}
	}
	return Digest(all...)
}
