package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inotify is inotify(7) with the events chosen per watch. memory.events and
// its like change many times a second in a job at its limit, so a directory is
// watched for what is made and removed in it, and files one by one.
type inotify struct{ file *os.File }

const (
	watchDir  = unix.IN_CREATE | unix.IN_DELETE | unix.IN_ONLYDIR
	watchFile = unix.IN_MODIFY
)

// happening is one event. A name belongs to the entry of a watched directory.
type happening struct {
	watch int
	mask  uint32
	name  string
}

func (h happening) is(mask uint32) bool { return h.mask&mask != 0 }

// errNoInstance is what a missing instance answers.
var errNoInstance = errors.New("there is no inotify instance")

func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot have an inotify instance: %w", err)
	}
	return &inotify{os.NewFile(uintptr(fd), "inotify")}, nil
}

func (i *inotify) add(path string, mask uint32) (int, error) {
	if i == nil {
		return 0, errNoInstance
	}
	raw, err := i.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var watch int
	var addErr error
	if err := raw.Control(func(fd uintptr) { watch, addErr = unix.InotifyAddWatch(int(fd), path, mask) }); err != nil {
		return 0, fmt.Errorf("%w: %w", os.ErrClosed, err)
	}
	if addErr != nil {
		return 0, &os.PathError{Op: "watch", Path: path, Err: addErr}
	}
	return watch, nil
}

// remove gives a watch back. One that the kernel has taken away with its file is
// no fault.
func (i *inotify) remove(watch int) {
	if raw, err := i.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(watch)) }) //nolint:gosec // it is the kernel's number
	}
}

// read waits for events. After close it returns an error.
func (i *inotify) read(buffer []byte) ([]happening, error) {
	n, err := i.file.Read(buffer)
	if err != nil {
		return nil, err
	}
	var all []happening
	for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
		raw := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
		end := unix.SizeofInotifyEvent + int(raw.Len)
		name := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:end]), "\x00")
		all = append(all, happening{int(raw.Wd), raw.Mask, name})
		rest = rest[end:]
	}
	return all, nil
}

func (i *inotify) close() error { return i.file.Close() }
