package rootfs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// nobody stands for any user, where root asks.
const nobody = 65534

// Probe makes a container of an empty image, as a user, and prints what this node can do. The error is why it cannot.
func Probe(store string, out io.Writer) error {
	if os.Getuid() == 0 {
		return probeAsNobody(store, out)
	}
	image, err := os.MkdirTemp("", "slurmlet-probe-")
	if err != nil {
		return fmt.Errorf("cannot make an empty image: %w", err)
	}
	defer os.RemoveAll(image)
	lifeline, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a container: %w", err)
	}
	defer lifeline.Close()
	defer write.Close()
	s := Spec{Options: options.Options{Image: image}, Store: store, UID: os.Getuid(), GID: os.Getgid()}
	if _, err := Enter(s, lifeline); err != nil {
		return err
	}
	fmt.Fprintln(out, "directories: yes")
	why := "yes"
	if device, err := openFUSE(); err != nil {
		why = "no: " + err.Error()
	} else {
		_ = unix.Close(device)
	}
	fmt.Fprintln(out, "squashfs files:", why)
	return nil
}

func probeAsNobody(store string, out io.Writer) error {
	if err := os.MkdirAll(filepath.Join(store, "mnt"), 0o755); err != nil {
		return fmt.Errorf("cannot make %s: %w", store, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot run as a user: %w", err)
	}
	cmd := exec.Command(self, "probe", "-store", store)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Run(); err != nil {
		return ErrReported
	}
	return nil
}
