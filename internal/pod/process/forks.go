package process

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/notify"
)

// EndForks kills the children of the process that execute the same program as it does: what it has forked and not started
// anything in. It returns how many of those that are meant there were.
func (p *Process) EndForks(meant func(pid int) bool) (ended int) {
	program, err := programOf(p.pid)
	if err != nil {
		return 0
	}
	for _, child := range notify.Children(p.pid) {
		if endFork(child, p.pid, program, meant) {
			ended++
		}
	}
	return ended
}

// endFork kills child if it is a fork of parent, which is known only of a process that a pidfd holds: a number may be given anew.
func endFork(child, parent int, program os.FileInfo, meant func(pid int) bool) bool {
	pidfd, err := openPidfd(child)
	if err != nil {
		return false
	}
	defer pidfd.Close()
	its, err := programOf(child)
	if err != nil || !os.SameFile(its, program) || !slices.Contains(notify.Children(parent), child) || !meant(child) {
		return false
	}
	conn, err := pidfd.SyscallConn()
	return err == nil && pidfdSender(conn)(unix.SIGKILL) == nil
}

// programOf is the file that a process executes; a zombie has none.
func programOf(pid int) (os.FileInfo, error) {
	return os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
}
