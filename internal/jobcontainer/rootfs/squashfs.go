package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// squashfuse are the places of squashfuse's program with threads (Debian's package squashfuse).
var squashfuse = []string{"/usr/bin/squashfuse_ll", "/usr/local/bin/squashfuse_ll"}

// mostMounting bounds the start of squashfuse, which reads an image's table of contents from a file system of the site's.
const mostMounting = time.Minute

// findSquashfuse finds the program that mounts a squashfs file, and says what this node lacks.
func findSquashfuse() (program string, err error) {
	for _, path := range squashfuse {
		if exists(path) {
			program = path
			break
		}
	}
	if program == "" {
		return "", errors.New("a squashfs file needs squashfuse_ll on the node (Debian's package squashfuse); a directory does not")
	}
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("a squashfs file needs /dev/fuse in the node's pod (a device plugin or CRI-O's annotation gives "+
			"it, a hostPath alone does not); a directory does not: %w", err)
	}
	_ = device.Close()
	return program, nil
}

// mountSquashfs has squashfuse serve the image at dir until this process ends. Files belong to the job's user there,
// because their owners in the image do not exist in the namespace.
func (s Spec) mountSquashfs(dir string) error {
	program, err := findSquashfuse()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("cannot mount the image: %w", err)
	}
	before, err := device64(dir) // before squashfuse can have mounted it
	if err != nil {
		return err
	}
	said := &bytes.Buffer{}
	cmd := exec.Command(program, "-f", "-o", fmt.Sprintf("uid=%d,gid=%d", os.Getuid(), os.Getgid()), s.Lower, dir)
	cmd.Env, cmd.Stderr = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start squashfuse: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it has printed says more
		close(ended)
	}()
	for limit := time.Now().Add(mostMounting); time.Now().Before(limit); {
		if now, err := device64(dir); err == nil && now != before {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("cannot read --container-image: squashfuse says: %s", bytes.TrimSpace(said.Bytes()))
		case <-time.After(time.Millisecond):
		}
	}
	return fmt.Errorf("squashfuse has not mounted the image within %v", mostMounting)
}

func device64(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, fmt.Errorf("cannot mount the image: %w", err)
	}
	return st.Dev, nil
}
