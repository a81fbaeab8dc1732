package sack

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// peer is who has connected, as the kernel has it (SO_PEERCRED).
func peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	failed := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if failed != nil {
		return nil, failed
	}
	return cred, err
}

// connectAs connects with the effective ids of another user, which the kernel reports to whoever listens. A thread does that and
// ends: nobody runs with its ids afterwards, and what that user may have done to a thread with its effective uid
// (sched_setattr(2)) ends with it. Its real uid stays the agent's, so that the user can neither signal nor trace it.
func connectAs(uid, gid uint32, path string) (net.Conn, error) {
	type result struct {
		fd  int
		err error
	}
	done := make(chan result)
	onThread(func() {
		fd, err := connect(uid, gid, path)
		done <- result{fd, err}
	})
	r := <-done
	if r.err != nil {
		return nil, r.err
	}
	file := os.NewFile(uintptr(r.fd), path)
	defer file.Close() // it is duplicated
	return net.FileConn(file)
}

// onThread runs f on a thread that ends with it. Go never ends a program's first thread.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		over := make(chan struct{})
		onThread(func() {
			defer close(over)
			f()
		})
		<-over // until then this thread runs nothing else
	}()
}

func connect(uid, gid uint32, path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err = become(uid, gid); err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// become changes the effective ids of this thread alone. The kernel then takes the whole process for one whose memory must
// be kept from its own user (PR_SET_DUMPABLE in prctl(2)), which the agent is not.
func become(uid, gid uint32) error {
	if int(uid) == os.Geteuid() && int(gid) == os.Getegid() {
		return nil
	}
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, same, uintptr(gid), same); errno != 0 {
		return fmt.Errorf("setresgid: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return fmt.Errorf("setresuid: %w", errno)
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}
