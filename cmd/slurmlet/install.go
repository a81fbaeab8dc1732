package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/agent"
)

// companions are what jobs' containers need of slurmlet, and a text that is in every version of each. The image of the
// agent has them beside this program, and they come along.
var companions = map[string]string{
	"slurmlet-container": ourPackage + "-container",
	"slurmlet-import":    ourPackage + "-import",
	"spank_slurmlet.so":  "spank_plugin_version",
}

// install copies this program into a directory, from which another container starts it, and what is beside it.
func install(args []string) int {
	if len(args) != 1 || args[0] == "" {
		return misused(fmt.Errorf("install: want one directory, not %q", args))
	}
	path := filepath.Join(args[0], "slurmlet")
	err := installAs(path, "/proc/self/exe", ourPackage)
	if err == nil {
		err = installCompanions(args[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet: cannot install:", err)
		return agent.ExitFailure
	}
	fmt.Printf("slurmlet %s is %s\n", version, path)
	return agent.ExitOK
}

// ourPackage is in every version of this program, because Go writes the main package's path into it.
const ourPackage = "github.com/slurmlet/slurmlet/cmd/slurmlet"

// installCompanions installs those that are there.
func installCompanions(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name, mark := range companions {
		source := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Lstat(source); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := installAs(filepath.Join(dir, name), source, mark); err != nil {
			return err
		}
	}
	return nil
}

// installAs replaces an older file with the mark, which may run, and no other file. Whoever looks finds the
// old file or the whole new one.
func installAs(path, source, mark string) error {
	program, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	old, err := foundAt(path, mark)
	if err != nil {
		return err
	}
	if bytes.Equal(old, program) {
		return os.Chmod(path, 0o755)
	}
	part := path + ".part" // what an install has left that was killed
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := write(part, program); err != nil {
		_ = os.Remove(part) // the first fault counts
		return err
	}
	return os.Rename(part, path)
}

// foundAt reads the file with the mark at path: nil if there is no file.
func foundAt(path, mark string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file: move it away, or choose another directory", path)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(old, []byte(mark)) {
		return nil, fmt.Errorf("%s is not a slurmlet: move it away, or choose another directory", path)
	}
	return old, nil
}

func write(path string, program []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(program))
	return errors.Join(err, f.Chmod(0o755), f.Sync(), f.Close())
}
