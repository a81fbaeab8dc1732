package pid1

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reap reports and reaps every orphan that has ended. Each is looked at first and collected only when it was reported.
func reap(reaped func(Exit)) {
	for {
		exit, ok := peek()
		if !ok {
			return
		}
		reaped(exit)
		collect(exit.PID)
	}
}

// peek finds an ended child of this thread and leaves it a zombie (waitid(2), WNOWAIT).
func peek() (Exit, bool) {
	var info childInfo
	const options = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT | unix.WNOTHREAD
	err := again(func() error {
		return unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), options, nil)
	})
	if err != nil || info.pid == 0 { // ECHILD: no orphans; 0: none that has ended
		return Exit{}, false
	}
	return Exit{PID: int(info.pid), Status: info.waitStatus()}, true
}

func collect(pid int) {
	_ = again(func() error {
		_, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WNOTHREAD, nil)
		return err
	})
}

// again repeats a call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// childInfo is siginfo_t as waitid(2) fills it, on 64-bit Linux.
type childInfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// The values of si_code for a child that has ended (sigaction(2)).
const (
	cldExited = 1
	cldDumped = 3
)

// waitStatus puts the two numbers of waitid back into the one of wait4 (wait(2)).
func (i childInfo) waitStatus() unix.WaitStatus {
	switch i.code {
	case cldExited:
		return unix.WaitStatus(i.status&0xff) << 8
	case cldDumped:
		return unix.WaitStatus(i.status&0x7f) | 0x80
	default:
		return unix.WaitStatus(i.status & 0x7f)
	}
}
