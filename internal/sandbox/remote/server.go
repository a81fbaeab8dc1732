package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
)

// Executor is what the server runs commands with.
type Executor interface {
	// Execute returns the exit code. ctx ends with the client's connection.
	Execute(ctx context.Context, c Command) int
	// Dial connects to a port of a pod.
	Dial(ctx context.Context, pod string, port uint32) (net.Conn, error)
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
			go s.forward(ctx, c)
		default:
			_ = c.Reject(ssh.UnknownChannelType, "want session or direct-tcpip")
		}
	}
}

// forward joins a channel with a pod's port (RFC 4254, 7.2).
func (s *Server) forward(ctx context.Context, c ssh.NewChannel) {
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
	conn, err := s.executor.Dial(ctx, to.Host, to.Port)
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
