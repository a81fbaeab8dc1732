package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// squashfuse are the places of squashfuse's program with threads (Debian's package squashfuse).
var squashfuse = []string{"/usr/bin/squashfuse_ll", "/usr/local/bin/squashfuse_ll"}

// mostMounting bounds the start of squashfuse, which reads an image's table of contents from a file system of the site's.
const mostMounting = time.Minute

// findSquashfuse finds the program that serves a squashfs file.
func findSquashfuse() (string, error) {
	for _, path := range squashfuse {
		if exists(path) {
			return path, nil
		}
	}
	return "", errors.New("a squashfs file needs squashfuse_ll on the node (Debian's package squashfuse); a directory does not")
}

// openFUSE opens the kernel's end of a file system that a program serves, and says what this node lacks.
func openFUSE() (int, error) {
	if _, err := findSquashfuse(); err != nil {
		return -1, err
	}
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("a squashfs file needs /dev/fuse in the node's pod (a device plugin or CRI-O's annotation gives "+
			"it, a hostPath alone does not); a directory does not: open /dev/fuse: %w", err)
	}
	return device, nil
}

// server is a squashfuse that has been started.
type server struct {
	pid  int
	said string // the path of what it prints
	late *time.Timer
}

// mountSquashfs mounts the image at dir, and has squashfuse serve it until this process ends. It does not wait:
// squashfuse starts while the rest of the container is made, and who reads the image waits in the kernel. Files belong
// to the job's user there, because their owners in the image do not exist in the namespace. The mount is read-only: the
// kernel then asks squashfuse for no attributes after each read, which would have changed the times of others.
func (s Spec) mountSquashfs(dir string) (*server, error) {
	device, err := openFUSE()
	if err != nil {
		return nil, err
	}
	defer unix.Close(device)
	uid, gid := os.Getuid(), os.Getgid()
	err = os.Mkdir(dir, 0o755)
	if err == nil {
		data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, uid, gid)
		err = unix.Mount("squashfuse", dir, "fuse.squashfuse", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, data)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot mount the image: %w", err)
	}
	v := &server{said: filepath.Join(s.mountpoint(), "squashfuse")}
	said, err := unix.Open(v.said, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot start squashfuse: %w", err)
	}
	defer unix.Close(said)
	program, err := findSquashfuse()
	if err != nil {
		return nil, err
	}
	// libfuse takes a file system that is mounted already by the number of its file
	v.pid, err = syscall.ForkExec(program, []string{program, "-f", "-o", fmt.Sprintf("uid=%d,gid=%d", uid, gid), s.Lower, "/dev/fd/3"},
		&syscall.ProcAttr{
			Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Files: []uintptr{0, uintptr(said), uintptr(said), uintptr(device)},
			Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
		})
	if err != nil {
		return nil, fmt.Errorf("cannot start squashfuse: %w", err)
	}
	// who waits for a file system that has not begun can be killed
	v.late = time.AfterFunc(mostMounting, func() {
		fmt.Fprintf(os.Stderr, "slurmlet: squashfuse has not mounted the image within %v\n", mostMounting)
		os.Exit(1)
	})
	return v, nil
}

// begun is called when the image has been read from.
func (v *server) begun() {
	if v != nil {
		v.late.Stop()
	}
}

// mostEnding is how long an error is kept back, because squashfuse may be about to end and to say why.
const mostEnding = 200 * time.Millisecond

// explain is an error with what squashfuse has printed, where it has ended.
func (v *server) explain(err error) error {
	if err == nil || v == nil {
		return err
	}
	ended := false
	if fd, failed := unix.PidfdOpen(v.pid, 0); failed == nil {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(mostEnding.Milliseconds())) //nolint:gosec // it is small
		ended = n > 0
		_ = unix.Close(fd)
	}
	if !ended {
		return err
	}
	text, _ := os.ReadFile(v.said) // it may have said nothing
	return fmt.Errorf("cannot read --container-image: squashfuse says: %s", bytes.TrimSpace(text))
}
