package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// loopback is a registry on this machine alone, which ends with this process.
type loopback struct {
	address string // 127.0.0.1:40001
	cmd     *exec.Cmd
	ended   chan struct{}
	said    []string // before it was up
}

const registryConfiguration = `version: 0.1
log:
  level: info
  formatter: text
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: %s
http:
  addr: 127.0.0.1:0
`

// listening is what the registry logs when it is up. It chooses its port.
var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)

const registryLimit = time.Minute

// startRegistry starts the registry, a program, with its data in dir.
func startRegistry(ctx context.Context, program, dir string) (*loopback, error) {
	config := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, registryConfiguration, filepath.Join(dir, "data")), 0o600); err != nil {
		return nil, fmt.Errorf("cannot configure the registry: %w", err)
	}
	l := &loopback{cmd: exec.Command(program, "serve", config), ended: make(chan struct{})}
	l.cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	said, err := l.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot read the registry's log: %w", err)
	}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the registry: %w", err)
	}
	up := make(chan string, 1)
	go l.follow(said, up)
	ctx, cancel := context.WithTimeout(ctx, registryLimit)
	defer cancel()
	select {
	case l.address = <-up:
		return l, nil
	case <-l.ended:
		return nil, fmt.Errorf("cannot start the registry: it has ended:\n%s", strings.Join(l.said, "\n"))
	case <-ctx.Done():
		l.stop()
		return nil, fmt.Errorf("cannot reach the registry: %w", ctx.Err())
	}
}

// follow reads the log to its end. It tells the address once.
func (l *loopback) follow(log io.Reader, up chan<- string) {
	defer close(l.ended)
	lines := bufio.NewScanner(log)
	told := false
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil && !told {
			told = true
			up <- m[1]
		} else if !told {
			l.said = append(l.said, lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, log) // a line that was too long for the scanner
	_ = l.cmd.Wait()                // it is ended by a signal
}

func (l *loopback) stop() {
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-l.ended:
	case <-time.After(10 * time.Second):
		_ = l.cmd.Process.Kill()
		<-l.ended
	}
}
