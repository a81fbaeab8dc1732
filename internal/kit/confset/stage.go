package confset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// write makes a directory that is ours alone, fills it, and gives it away.
func (s *Store) write(root *os.Root, name string, set *Set, complete func(*os.Root) error) error {
	if err := root.Mkdir(name, 0o700); err != nil {
		return err
	}
	err := s.fill(root, name, set, complete)
	if err != nil {
		_ = root.RemoveAll(name)
	}
	return err
}

func (s *Store) fill(root *os.Root, name string, set *Set, complete func(*os.Root) error) error {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, f := range set.Files {
		if err := writeFile(dir, f); err != nil {
			return err
		}
	}
	if complete != nil {
		if err := complete(dir); err != nil {
			return err
		}
	}
	if !s.Lasting {
		if err := linkKeys(dir, set.Keys); err != nil {
			return err
		}
	}
	return s.giveAway(dir, set)
}

func writeFile(dir *os.Root, f File) error {
	if err := dir.MkdirAll(filepath.Dir(f.Name), 0o700); err != nil {
		return err
	}
	out, err := dir.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(f.Data)
	return errors.Join(err, out.Close())
}

func linkKeys(dir *os.Root, keys []Key) error {
	for _, key := range keys {
		if err := errors.Join(dir.MkdirAll(filepath.Dir(key.Name), 0o700), dir.Symlink(key.Target, key.Name)); err != nil {
			return err
		}
	}
	return nil
}

// giveAway gives everything its owner and mode, what is in a directory before the
// directory: nobody else gets in before it is done.
func (s *Store) giveAway(dir *os.Root, set *Set) error {
	var names []string
	err := fs.WalkDir(dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSymlink == 0 {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if err := s.give(dir, name, set); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) give(dir *os.Root, name string, set *Set) error {
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	mode := fs.FileMode(0o644) // of what was added
	if kept, found := set.File(name); found {
		mode = kept.Mode
	}
	if info.IsDir() {
		mode = 0o755
	}
	err = errors.Join(f.Chown(s.UID, s.GID), f.Chmod(mode))
	if s.Lasting {
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}
