package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/server"
	"golang.org/x/sys/unix"
)

// connect greets the server, once.
func (s *Sandbox) connect(ctx context.Context, limit time.Duration) error {
	keys, err := remote.ReadKeys(s.boot())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("cannot reach the sandbox's server: %v", err)
	}
	s.client, err = remote.NewClient(conn, keys, limit)
	return err
}

func (s *Sandbox) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	if !s.settings.Guest {
		return d.DialContext(ctx, "unix", s.settings.Socket)
	}
	return dialIn(fmt.Sprintf("/proc/%d/ns/net", s.launcher.PID), func() (net.Conn, error) {
		// A numeric address: the dialer makes its socket on this very thread.
		d.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: lost / 4, Interval: lost / 4, Count: 3}
		d.Control = giveUp
		return d.DialContext(ctx, "tcp", net.JoinHostPort(server.GuestAddress, strconv.Itoa(server.Port)))
	})
}

// lost is after how long without a sign of life a guest is gone. One that was
// killed leaves nobody who would close its connections.
const lost = time.Minute

// giveUp does for what was sent what keep-alive does for silence (tcp(7)).
func giveUp(_, _ string, c syscall.RawConn) (err error) {
	controlled := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lost.Milliseconds()))
	})
	return errors.Join(controlled, err)
}

// dialIn dials inside a network namespace, on a thread that ends with it.
func dialIn(namespace string, dial func() (net.Conn, error)) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var fd int
		if fd, err = unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return
		}
		conn, err = dial()
	}()
	<-done
	return conn, err
}
