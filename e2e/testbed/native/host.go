package native

import (
	"fmt"
	"net"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostFurnish is the first process of a host. It waits for its cable, and has no real-time priority.
const hostFurnish = `read -r plugged; exec chrt --other 0 "$@"`

// StartHost starts a command as the machine h1, h2 and so on: in the cluster's root, with a network
// namespace and an address of its own. Its input, output and environment are the caller's to set before.
// The first line of its input says that the cable is plugged; the host takes that away.
func (c *Cluster) StartHost(number int, cmd *exec.Cmd) error {
	args := append([]string{"/bin/sh", "-c", hostFurnish, "host", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Args = args[0], args
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.Root, Cloneflags: unix.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start host %d: %w", number, err)
	}
	address := net.IPv4(10, 88, byte(100+number/250), byte(1+number%250))
	if err := connect(fmt.Sprintf("h%d", number), cmd.Process.Pid, address); err != nil {
		return fmt.Errorf("cannot connect host %d: %w", number, err)
	}
	return nil
}
