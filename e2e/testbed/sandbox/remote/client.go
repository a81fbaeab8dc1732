package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Client is one connection to a server.
type Client struct{ conn *ssh.Client }

// NewClient speaks to the server at the other end of conn, which must have the
// server's key. The greeting has to be over within limit.
func NewClient(conn net.Conn, keys Keys, limit time.Duration) (*Client, error) {
	config := &ssh.ClientConfig{
		User:            user,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(keys.Client)},
		HostKeyCallback: ssh.FixedHostKey(keys.Server.PublicKey()),
	}
	// Not a deadline of conn: it could strike ssh's own reader between the greeting's end and its removal.
	late := time.AfterFunc(limit, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, "sandbox", config)
	if !late.Stop() {
		err = fmt.Errorf("it took longer than %v", limit)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot greet the sandbox's server: %v", err)
	}
	return &Client{conn: ssh.NewClient(c, channels, requests)}, nil
}

// Close ends the connection and every command on it.
func (c *Client) Close() error { return c.conn.Close() }

// Dial connects to a pod's port, "node-0:8817", or to a socket in a pod,
// "node-0:/run/slurmlet/agent.sock".
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if strings.Contains(address, ":/") {
		network = "unix"
	}
	conn, err := c.conn.DialContext(ctx, network, address)
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return nil, fmt.Errorf("cannot connect to %s: %s", address, refused.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %v", address, err)
	}
	return conn, nil
}

// Streams are the client's ends of a command. Nil ones are empty or discarded.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal asks for one; its Sizes are passed on.
	Terminal *Terminal
	// Signals are passed on by their names without SIG.
	Signals <-chan string
}

// Run runs a command and returns its exit code. A cancelled ctx ends it.
func (c *Client) Run(ctx context.Context, args []string, s Streams) (int, error) {
	command, err := encode(args)
	if err != nil {
		return 0, fmt.Errorf("cannot run %s: %v", args[0], err)
	}
	session, err := c.conn.NewSession()
	if err != nil {
		return 0, fmt.Errorf("cannot run %s: %v", args[0], err)
	}
	defer session.Close()
	if err := connect(session, s); err != nil {
		return 0, fmt.Errorf("cannot run %s: %v", args[0], err)
	}
	if err := session.Start(command); err != nil {
		return 0, fmt.Errorf("cannot run %s: %v", args[0], err)
	}
	defer context.AfterFunc(ctx, func() { _ = session.Close() })()
	stop := make(chan struct{})
	defer close(stop)
	go passOn(session, s, stop)
	code, err := exitCode(session.Wait())
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%s was ended: %w", args[0], context.Cause(ctx))
	}
	return code, err
}

func connect(session *ssh.Session, s Streams) error {
	session.Stdout, session.Stderr = s.Stdout, s.Stderr
	// Not session.Stdin: Wait would wait for the end of a terminal's input.
	stdin, err := session.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		if s.Stdin != nil {
			_, _ = io.Copy(stdin, s.Stdin)
		}
		_ = stdin.Close()
	}()
	if t := s.Terminal; t != nil {
		return session.RequestPty(t.Term, int(t.Size.Rows), int(t.Size.Columns), ssh.TerminalModes{})
	}
	return nil
}

func passOn(session *ssh.Session, s Streams, stop <-chan struct{}) {
	var sizes <-chan Size
	if s.Terminal != nil {
		sizes = s.Terminal.Sizes
	}
	for {
		select {
		case size := <-sizes:
			_ = session.WindowChange(int(size.Rows), int(size.Columns))
		case name := <-s.Signals:
			_ = session.Signal(ssh.Signal(name))
		case <-stop:
			return
		}
	}
}

func exitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return exit.ExitStatus(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("lost the sandbox: %v", err)
	}
	return 0, nil
}
