package remote

import (
	"context"

	"golang.org/x/crypto/ssh"
)

// session is the server's side of one command: requests for a terminal may come
// first, then the command, then signals and sizes.
type session struct {
	channel  ssh.Channel
	executor Executor
	terminal *Terminal
	sizes    chan Size
	signals  chan string
	args     []string
}

func (s *Server) session(ctx context.Context, c ssh.NewChannel) {
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	one := &session{channel: channel, executor: s.executor, sizes: make(chan Size, 1), signals: make(chan string, 8)}
	for r := range requests {
		ok := one.handle(r)
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		if ok && r.Type == "exec" {
			go one.run(ctx) // only now: a quick command closes the channel
		}
	}
}

func (s *session) handle(r *ssh.Request) bool {
	switch r.Type {
	case "pty-req":
		return s.makeTerminal(r.Payload)
	case "window-change":
		return s.resize(r.Payload)
	case "signal":
		return s.signal(r.Payload)
	case "exec":
		return s.accept(r.Payload)
	}
	return false
}

func (s *session) makeTerminal(payload []byte) bool {
	var want struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if ssh.Unmarshal(payload, &want) != nil {
		return false
	}
	s.terminal = &Terminal{Term: want.Term, Size: Size{want.Columns, want.Rows}, Sizes: s.sizes}
	return true
}

func (s *session) resize(payload []byte) bool {
	var want struct{ Columns, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &want) != nil {
		return false
	}
	select {
	case <-s.sizes: // only the newest counts
	default:
	}
	s.sizes <- Size{want.Columns, want.Rows}
	return true
}

func (s *session) signal(payload []byte) bool {
	var want struct{ Signal string }
	if ssh.Unmarshal(payload, &want) != nil {
		return false
	}
	select {
	case s.signals <- want.Signal:
		return true
	default:
		return false // nobody reads them
	}
}

func (s *session) accept(payload []byte) bool {
	var want struct{ Command string }
	if s.args != nil || ssh.Unmarshal(payload, &want) != nil {
		return false
	}
	args, err := decode(want.Command)
	s.args = args
	return err == nil
}

func (s *session) run(ctx context.Context) {
	code := s.executor.Execute(ctx, Command{
		Args: s.args, Stdin: s.channel, Stdout: s.channel, Stderr: s.channel.Stderr(), Terminal: s.terminal, Signals: s.signals,
	})
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
	_ = s.channel.Close()
}
