package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Executor is what the server runs commands with.
type Executor interface {
	// Execute returns the exit code. ctx ends with the client's connection.
	Execute(ctx context.Context, c Command) int
	// Dial connects to a port of a pod ("8817"), or to a socket in it ("/run/slurmlet/agent.sock").
	Dial(ctx context.Context, pod, to string) (net.Conn, error)
}

// Command is one request.
type Command struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is nil unless the client has one. Sizes and signals follow.
	Terminal *Terminal
	Signals  <-chan string // "TERM", "INT", … (RFC 4254, 6.10)
}

// Terminal is the client's.
type Terminal struct {
	Term  string
	Size  Size
	Sizes <-chan Size
}

// Server serves commands to whoever has the client's key.
type Server struct {
	config   *ssh.ServerConfig
	executor Executor
}

// NewServer makes a server that trusts only client.
func NewServer(key ssh.Signer, client ssh.PublicKey, executor Executor) *Server {
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(offered.Marshal(), client.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(key)
	return &Server{config: config, executor: executor}
}

// Serve accepts connections until the listener is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("cannot accept: %w", err)
		}
		go s.connection(conn)
	}
}

func (s *Server) connection(conn net.Conn) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return // the client is told by the protocol
	}
	go ssh.DiscardRequests(requests)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for c := range channels {
		switch c.ChannelType() {
		case "session":
			go s.session(ctx, c)
		case "direct-tcpip":
			go s.forwardPort(ctx, c)
		case "direct-streamlocal@openssh.com":
			go s.forwardSocket(ctx, c)
		default:
			_ = c.Reject(ssh.UnknownChannelType, "want session, direct-tcpip or direct-streamlocal@openssh.com")
		}
	}
}

// forwardPort joins a channel with a pod's port (RFC 4254, 7.2).
func (s *Server) forwardPort(ctx context.Context, c ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(c.ExtraData(), &to); err != nil {
		_ = c.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	s.forward(ctx, c, to.Host, strconv.FormatUint(uint64(to.Port), 10))
}

// forwardSocket joins a channel with a socket in a pod: "node-0:/run/slurmlet/agent.sock"
// (OpenSSH's PROTOCOL, 2.4).
func (s *Server) forwardSocket(ctx context.Context, c ssh.NewChannel) {
	var to struct {
		Path         string
		Reserved     string
		ReservedPort uint32
	}
	if err := ssh.Unmarshal(c.ExtraData(), &to); err != nil {
		_ = c.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	pod, path, found := strings.Cut(to.Path, ":")
	if !found || !strings.HasPrefix(path, "/") {
		_ = c.Reject(ssh.ConnectionFailed, fmt.Sprintf("want POD:/PATH, not %q", to.Path))
		return
	}
	s.forward(ctx, c, pod, path)
}

func (s *Server) forward(ctx context.Context, c ssh.NewChannel, pod, to string) {
	conn, err := s.executor.Dial(ctx, pod, to)
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer conn.Close()
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	go ssh.DiscardRequests(requests)
	go func() {
		_, _ = io.Copy(conn, channel)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(channel, conn)
}
