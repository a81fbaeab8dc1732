package rootfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// inside is the container's root as a place for mounts. Links that lead out of it lead to its own "/".
type inside struct{ fd int }

func openInside(root string) (inside, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return inside{}, fmt.Errorf("cannot open the container's root: %w", err)
	}
	return inside{fd}, nil
}

func (i inside) open(path string, flags uint64) (int, error) {
	return unix.Openat2(i.fd, path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
}

// place opens a path for a mount. What is missing of it is made: directories, and at its end a directory or a file.
func (i inside) place(path string, file bool) (string, error) {
	fd, err := i.open(path, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		if err = i.make(path, file); err == nil {
			fd, err = i.open(path, unix.O_PATH)
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot make %s in the container: %w", path, err)
	}
	// It stays open: one process makes one container, and then closes them all.
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

func (i inside) make(path string, file bool) error {
	dir, base := filepath.Split(strings.Trim(filepath.Clean("/"+path), "/"))
	parent, err := i.open("./"+dir, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		if err = i.make(dir, false); err == nil {
			parent, err = i.open("./"+dir, unix.O_PATH|unix.O_DIRECTORY)
		}
	}
	if err != nil {
		return err
	}
	if file {
		var made int
		if made, err = unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644); err == nil {
			err = unix.Close(made)
		}
	} else {
		err = unix.Mkdirat(parent, base, 0o755)
	}
	return errors.Join(err, unix.Close(parent))
}

// most is how much of a file of the image is read.
const most = 1 << 20

// read returns a file of the container, or nothing.
func (i inside) read(path string) string {
	fd, err := i.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return ""
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(text)
}

// has says whether there is something at a path.
func (i inside) has(path string) bool {
	fd, err := i.open(path, unix.O_PATH)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}
