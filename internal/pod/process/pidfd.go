package process

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// pidfdConn is a pidfd under the runtime's poller: waiting for it takes no thread and no wake-up.
type pidfdConn = syscall.RawConn

// openPidfd returns a handle that keeps meaning the same process whatever becomes of its number (pidfd_open(2)).
func openPidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK) // PIDFD_NONBLOCK, Linux 5.10
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return os.NewFile(uintptr(fd), "pidfd of "+strconv.Itoa(pid)), nil
}

func pidfdSender(conn pidfdConn) func(unix.Signal) error {
	return func(sig unix.Signal) error {
		var err error
		if closed := conn.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); closed != nil {
			return closed
		}
		if err == unix.ESRCH {
			return ErrExited
		}
		return os.NewSyscallError("pidfd_send_signal", err)
	}
}

func running(pidfd *os.File) bool {
	ended := false
	if conn, err := pidfd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { ended = hasEnded(fd) })
	}
	return !ended
}

// hasEnded: a pidfd is readable from when its process is a zombie (pidfd_open(2)).
func hasEnded(pidfd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}
