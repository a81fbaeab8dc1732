package parts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// command is a program that a build runs.
type command struct {
	dir  string
	env  []string          // added to our own
	line func(line string) // told every line of its output, when not nil
}

// run runs name until its end. The error holds the last lines of its output.
func (c command) run(ctx context.Context, name string, args ...string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	// Messages are parsed, so they are in English.
	cmd.Env = append(os.Environ(), append([]string{"LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}, c.env...)...)
	cmd.Stdout, cmd.Stderr = w, w
	// A build has children of its own: they end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		w.Close()
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	w.Close()
	read := make(chan tail, 1)
	go func() { read <- follow(r, c.line) }()
	err = cmd.Wait()
	last := <-read
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, strings.Join(last, "\n"))
	}
	return nil
}

// output runs name and returns what it wrote.
func (c command) output(ctx context.Context, name string, args ...string) (string, error) {
	var b strings.Builder
	c.line = func(line string) { fmt.Fprintln(&b, line) }
	err := c.run(ctx, name, args...)
	return b.String(), err
}

// tail is the end of an output, for an error message.
type tail []string

const tailLines = 20

func follow(r io.Reader, line func(string)) tail {
	var last tail
	in := bufio.NewReader(r)
	for {
		text, err := in.ReadString('\n')
		if text = strings.TrimRight(text, "\r\n"); text != "" {
			if line != nil {
				line(text)
			}
			last = append(last, text)
			last = last[max(0, len(last)-tailLines):]
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				last = append(last, err.Error())
			}
			return last
		}
	}
}
