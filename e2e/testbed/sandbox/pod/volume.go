package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// makeVolume creates a volume's directory and its files, unless it is there.
func makeVolume(dir string, v Volume) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	mode := os.FileMode(v.Mode)
	if mode == 0 {
		mode = 0o755
	}
	if err := makeDir(dir, mode, v); err != nil {
		return fmt.Errorf("cannot make volume %s: %v", v.Name, err)
	}
	if err := writeFiles(dir, v, time.Now()); err != nil {
		return fmt.Errorf("cannot make volume %s: %v", v.Name, err)
	}
	return nil
}

func writeFiles(dir string, v Volume, now time.Time) error {
	if v.Projected {
		return project(dir, v, now)
	}
	for name, file := range v.Files {
		if err := writeFile(filepath.Join(dir, name), v, file); err != nil {
			return err
		}
	}
	return nil
}

// project writes the files as the kubelet's AtomicWriter does: into a directory
// named after the time, which ..data then points to. Every file is a link
// through ..data, so that all of them change at once.
func project(dir string, v Volume, now time.Time) error {
	version := ".." + now.UTC().Format("2006_01_02_15_04_05.000000000")
	if err := makeDir(filepath.Join(dir, version), 0o755, v); err != nil {
		return err
	}
	for name, file := range v.Files {
		if err := writeFile(filepath.Join(dir, version, name), v, file); err != nil {
			return err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := replaceLink(version, filepath.Join(dir, "..data")); err != nil {
		return err
	}
	if err := userLinks(dir, v); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// userLinks makes the names that a pod opens, and removes those that went.
func userLinks(dir string, v Volume) error {
	for name := range v.Files {
		err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))
		if err != nil && !os.IsExist(err) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, there := v.Files[e.Name()]; !there && !strings.HasPrefix(e.Name(), "..") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func replaceLink(target, path string) error {
	if err := os.Symlink(target, path+"_tmp"); err != nil {
		return err
	}
	return os.Rename(path+"_tmp", path)
}

func makeDir(dir string, mode os.FileMode, v Volume) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Chmod by its numeric value, so that 1777 works as it does for mkdir(1).
	if err := os.Chmod(dir, fileMode(uint32(mode))); err != nil {
		return err
	}
	return os.Chown(dir, v.UID, v.GID)
}

// fileMode translates 01777 into the bits that package os knows.
func fileMode(mode uint32) os.FileMode {
	m := os.FileMode(mode & 0o777)
	if mode&0o1000 != 0 {
		m |= os.ModeSticky
	}
	return m
}

func writeFile(path string, v Volume, file File) error {
	mode := file.Mode
	if mode == 0 {
		mode = 0o644
	}
	if err := os.WriteFile(path, file.Data, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(path, fileMode(mode)); err != nil {
		return err
	}
	return os.Chown(path, v.UID, v.GID)
}
