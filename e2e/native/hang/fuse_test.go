//go:build e2e

package hang

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// fuse is a file system that takes requests and never answers one (linux/fuse.h). Who
// has asked it for something waits in the kernel, and SIGKILL does not end that.
type fuse struct {
	device int // no os.File: what is mounted later does not wake a poll
	asked  atomic.Int64
}

// The requests that are told apart, and the lengths of their headers and of INIT's answer.
const (
	fuseInit    = 26
	fuseIn      = 40
	fuseOut     = 16
	fuseInitOut = 64
)

func mountFuse(dir string) (*fuse, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := &fuse{device: device}
	if err := unix.Mount("dead", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot mount a FUSE file system: %w", err), unix.Close(device))
	}
	go f.serve()
	return f, nil
}

// cover mounts it on a directory of a process's mount namespace, too.
func (f *fuse) cover(pid int, dir string) error {
	cmd := exec.Command("nsenter", "--mount=/proc/"+strconv.Itoa(pid)+"/ns/mnt", "--root=/proc/"+strconv.Itoa(pid)+"/root", "mount", "--bind", "/"+dead, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot mount on %s: %w: %s", dir, err, out)
	}
	return nil
}

func (f *fuse) serve() {
	request := make([]byte, 1<<17)
	for {
		n, err := unix.Read(f.device, request)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOENT):
			continue
		case err != nil || n < fuseIn:
			return
		}
		if binary.NativeEndian.Uint32(request[4:]) != fuseInit {
			f.asked.Add(1)
			continue
		}
		answer := make([]byte, fuseOut+fuseInitOut)
		binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
		copy(answer[8:16], request[8:16]) // unique
		binary.NativeEndian.PutUint32(answer[fuseOut:], 7)
		binary.NativeEndian.PutUint32(answer[fuseOut+4:], 31)
		binary.NativeEndian.PutUint32(answer[fuseOut+20:], 4096) // max_write
		if _, err := unix.Write(f.device, answer); err != nil {
			return
		}
	}
}

// close has all who wait go on, with an error. A file that is read is not closed.
func (f *fuse) close(dir string) error {
	return unix.Unmount(dir, unix.MNT_FORCE)
}
