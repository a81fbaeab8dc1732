package main

import (
	"context"
	"flag"
	"os"
	"os/signal"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"golang.org/x/sys/unix"
)

func execute(f *flag.FlagSet) action {
	name, how := nameFlag(f), howFlags(f)
	user := f.String("u", "", "`user`: a name in the pod or a number (default root)")
	return func(ctx context.Context, args []string) (int, error) {
		how.User = *user
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			return attached(how, func(streams sandbox.Streams) (int, error) {
				return s.Attach(ctx, args[0], how.How, streams, args[1:]...)
			})
		})
	}
}

func shell(f *flag.FlagSet) action {
	name, how := nameFlag(f), howFlags(f)
	return func(ctx context.Context, args []string) (int, error) {
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			return attached(how, func(streams sandbox.Streams) (int, error) {
				return s.Shell(ctx, how.How, streams, args...)
			})
		})
	}
}

// how is what exec's flags say.
type how struct {
	sandbox.How
	input, terminal bool
}

func howFlags(f *flag.FlagSet) *how {
	h := streamFlags(f)
	f.StringVar(&h.Dir, "w", "", "working `directory` (default the user's home)")
	f.Func("e", "`NAME=VALUE` for the environment, repeatable", func(v string) error { h.Env = append(h.Env, v); return nil })
	return h
}

// streamFlags are those of kubectl exec and docker exec.
func streamFlags(f *flag.FlagSet) *how {
	h := &how{}
	f.BoolVar(&h.input, "i", false, "pass standard input on")
	f.BoolVar(&h.terminal, "t", false, "give the command a terminal")
	f.BoolFunc("it", "both -i and -t", func(string) error { h.input, h.terminal = true, true; return nil })
	return h
}

// attached runs a command with this program's streams, signals and terminal.
func attached(h *how, run func(sandbox.Streams) (int, error)) (int, error) {
	streams := sandbox.Streams{Stdout: os.Stdout, Stderr: os.Stderr}
	if h.input {
		streams.Stdin = os.Stdin
	}
	if h.terminal {
		t, restore, err := terminal()
		if err != nil {
			return 0, err
		}
		defer restore()
		streams.Terminal = t
	}
	return run(streams)
}

// terminal makes ours raw: the one in the pod echoes and edits.
func terminal() (*remote.Terminal, func(), error) {
	fd := int(os.Stdin.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, nil, usage("exec: -t: standard input is not a terminal")
	}
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, nil, usage("exec: -t: %v", err)
	}
	sizes, stop := watchSize(fd)
	restore := func() {
		stop()
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, old)
	}
	return &remote.Terminal{Term: os.Getenv("TERM"), Size: size(fd), Sizes: sizes}, restore, nil
}

func watchSize(fd int) (<-chan remote.Size, func()) {
	sizes, changed, done := make(chan remote.Size), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(changed, unix.SIGWINCH)
	go func() {
		for {
			select {
			case <-changed:
				select {
				case sizes <- size(fd):
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}()
	return sizes, func() { signal.Stop(changed); close(done) }
}

func size(fd int) remote.Size {
	w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return remote.Size{Columns: 80, Rows: 24}
	}
	return remote.Size{Columns: uint32(w.Col), Rows: uint32(w.Row)}
}
