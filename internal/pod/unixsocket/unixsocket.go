// Package unixsocket makes the agent's sockets, which only their owner may connect to unless they are for others, and bounds how many
// connections a listener has at once.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen replaces the socket of an agent that is gone; the directory is the agent's own. Nobody else
// can connect, not even for a moment: the name has the socket's mode at once (net/unix/af_unix.c,
// unix_bind_bsd).
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace the agent's socket: %w", err)
	}
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		closed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(closed, err)
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot make the agent's socket: %w", err)
	}
	return l, nil
}

// ListenForGroup is Listen, and the socket's group may connect, too.
func ListenForGroup(path string) (net.Listener, error) { return listenFor(path, "its group", 0o660) }

// ListenForAll is Listen, and everybody may connect.
func ListenForAll(path string) (net.Listener, error) { return listenFor(path, "everybody", 0o666) }

func listenFor(path, whom string, mode os.FileMode) (net.Listener, error) {
	l, err := Listen(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot share the socket with %s: %w", whom, err), l.Close())
	}
	return l, nil
}

// Bounded is a listener that has at most so many connections at once. Others wait in the kernel.
type Bounded struct {
	net.Listener
	places chan struct{}
}

// Bound bounds a listener to most connections.
func Bound(l net.Listener, most int) Bounded { return Bounded{l, make(chan struct{}, most)} }

// Accept waits for a place, and then for a connection, which gives its place back when it is closed.
func (b Bounded) Accept() (net.Conn, error) {
	b.places <- struct{}{}
	leave := sync.OnceFunc(func() { <-b.places })
	conn, err := b.Listener.Accept()
	if err != nil {
		leave()
		return nil, err
	}
	return placed{conn, leave}, nil
}

// placed gives its place back when it is closed.
type placed struct {
	net.Conn
	leave func()
}

func (p placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}
