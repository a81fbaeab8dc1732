package holds

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/unixsocket"
)

// Program is one that Slurm runs, a link in SLURMLET_RUN_DIR to slurmlet.
type Program string

// The programs. BatchScript is the batch script of a job of pods, and Epilog the rest of Slurm's epilog.
const (
	BatchScript Program = "hold"
	Epilog      Program = "epilog"
)

// Programs lists them.
func Programs() []Program { return []Program{BatchScript, Epilog} }

// The sockets in SLURMLET_RUN_DIR. Everybody may connect to that of scripts, and root to that of epilogs, so that users who fill
// the one do not keep epilogs waiting.
const (
	scriptSocket = "hold.sock"
	epilogSocket = "epilog.sock"
)

const (
	// mostScripts and mostEpilogs are how many connections each has at once.
	mostScripts, mostEpilogs = 64, 64
	// lineLimit is how long a visitor may take to say what for.
	lineLimit = 5 * time.Second
	mostLine  = 64
	// scriptLimit bounds the wait of a script, which slurmd kills after KillWait.
	scriptLimit = 10 * time.Minute
)

// What the agent answers.
const (
	overWord    = "over"
	drainedWord = "drained"
)

// doors are the sockets.
type doors struct{ scripts, epilogs net.Listener }

// open makes the sockets, and links to the program that runs.
func (d *doors) open(dir string) (err error) {
	if d.epilogs, err = unixsocket.Listen(filepath.Join(dir, epilogSocket)); err != nil {
		return err
	}
	if d.scripts, err = unixsocket.ListenForAll(filepath.Join(dir, scriptSocket)); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find the agent's program: %w", err)
	}
	for _, p := range Programs() {
		link := filepath.Join(dir, string(p))
		if err := errors.Join(removed(link), os.Symlink(program, link)); err != nil {
			return fmt.Errorf("cannot make %s, which Slurm runs: %w", link, err)
		}
	}
	return nil
}

func (d *doors) serve(h *Holds) {
	context.AfterFunc(h.alive, func() { _ = errors.Join(d.scripts.Close(), d.epilogs.Close()) })
	go accept(h, unixsocket.Bound(d.scripts, mostScripts), func(ctx context.Context, job uint32) string {
		ctx, cancel := context.WithTimeout(ctx, scriptLimit)
		defer cancel()
		if h.hint(ctx, job) {
			return overWord
		}
		return ""
	})
	go accept(h, unixsocket.Bound(d.epilogs, mostEpilogs), func(ctx context.Context, job uint32) string {
		switch over, drained := h.wait(ctx, job); {
		case over:
			return overWord
		case drained:
			return drainedWord
		}
		return ""
	})
}

// accept answers each visitor, who names a job.
func accept(h *Holds, l net.Listener, answer func(ctx context.Context, job uint32) string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the agent ends
		}
		go func() {
			defer conn.Close()
			job, err := readJob(conn)
			if err != nil {
				return // a stranger
			}
			ctx, gone := context.WithCancel(h.alive)
			defer gone()
			go func() {
				_, _ = conn.Read(make([]byte, 1)) // until the visitor leaves
				gone()
			}()
			if word := answer(ctx, job); word != "" {
				_, _ = io.WriteString(conn, word+"\n") // a visitor who has left asks again
			}
		}()
	}
}

func readJob(conn net.Conn) (uint32, error) {
	if err := conn.SetReadDeadline(time.Now().Add(lineLimit)); err != nil {
		return 0, err
	}
	line, err := bufio.NewReaderSize(io.LimitReader(conn, mostLine), mostLine).ReadString('\n')
	if err != nil {
		return 0, err
	}
	job, err := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
	if err != nil {
		return 0, err
	}
	return uint32(job), conn.SetReadDeadline(time.Time{})
}

// ask asks the agent whose sockets are in dir, and returns its word. It is empty where the agent has left without one.
func ask(ctx context.Context, dir, socket, job string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(dir, socket))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, job+"\n"); err != nil {
		return "", err
	}
	word, err := bufio.NewReaderSize(io.LimitReader(conn, mostLine), mostLine).ReadString('\n')
	return strings.TrimSpace(word), err
}

// again is the pause after an agent that has not answered.
const again = 500 * time.Millisecond

// AwaitEpilog returns when the agent lets a job's epilog end. An agent that is away comes back: slurmd itself ends an epilog
// that takes too long, and slurmctld then drains the node.
func AwaitEpilog(ctx context.Context, dir, job string) error {
	for {
		if word, err := ask(ctx, dir, epilogSocket, job); err == nil && (word == overWord || word == drainedWord) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// AwaitPods tells the agent that a job's script is to end, and returns when no pod of the job is left on the node.
func AwaitPods(ctx context.Context, dir, job string) error {
	for {
		if word, err := ask(ctx, dir, scriptSocket, job); err == nil && word == overWord {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * again):
		}
	}
}
