package launcher

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Guard is a process that waits until another one has ended, however it ended, and then
// removes a sandbox.
type Guard struct{ cmd *exec.Cmd }

// StartGuard starts cmd as the guard of the sandbox in dir. The guard calls RunGuard.
func StartGuard(cmd *exec.Cmd, dir string, pid int) (*Guard, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot watch process %d: %v", pid, err)
	}
	process := os.NewFile(uintptr(fd), "process")
	defer process.Close()
	its, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot guard sandbox: %v", err)
	}
	defer its.Close()
	cmd.ExtraFiles = []*os.File{process, its}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // a signal to the group of the process does not reach the guard
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot guard sandbox: %v", err)
	}
	return &Guard{cmd}, nil
}

// Stop ends the guard; the sandbox stays. A nil Guard guards nothing.
func (g *Guard) Stop() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill() // it may have ended
	_ = g.cmd.Wait()
}

// RunGuard is the guard's program: it removes what is in dir when the process has ended. It
// leaves another sandbox that has the name by then.
func RunGuard(dir string, remove func() error) int {
	const process, its = 3, 4 // cmd.ExtraFiles
	before, err := os.NewFile(its, dir).Stat()
	if err == nil {
		err = await(process)
	}
	if now, gone := os.Stat(dir); err == nil && gone == nil && os.SameFile(before, now) {
		err = remove()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot guard sandbox: %v\n", err)
		return 1
	}
	return 0
}

// await waits for the end of the process that a descriptor stands for.
func await(pidfd int32) error {
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: pidfd, Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
