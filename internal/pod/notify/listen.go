package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen opens the socket at path for NOTIFY_SOCKET: mode 0600, owned by uid and gid. A stale socket is replaced; a socket that
// somebody listens on, and anything else, is an error.
func Listen(path string, uid, gid int) (*Server, error) {
	s, err := listen(path, uid, gid)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for notifications on %s: %w", path, err)
	}
	return s, nil
}

func listen(path string, uid, gid int) (*Server, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	if err := bind(fd, path, uid, gid); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Server{path: path, file: file, conn: conn, serving: make(chan struct{})}, nil
}

// socket asks for credentials before there is a name to send to, so that no message lacks them.
func socket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

// bind sets the mode first: Linux gives it to the name at once (net/unix/af_unix.c, unix_bind_bsd), so it is never wider.
func bind(fd int, path string, uid, gid int) error {
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return os.NewSyscallError("fchmod", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := os.Lchown(path, uid, gid); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is something that is not a socket")
	case !stale(path):
		return errors.New("somebody else is listening there")
	}
	return os.Remove(path)
}

// stale: nobody has the socket open any more (connect(2), ECONNREFUSED).
func stale(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), syscall.ECONNREFUSED)
}
