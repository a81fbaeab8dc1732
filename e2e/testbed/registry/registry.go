// Package registry runs a registry of OCI artifacts on this machine, for as long as somebody needs one.
package registry

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Registry ends with this process.
type Registry struct {
	// Address is host:port.
	Address string
	cmd     *exec.Cmd
	ended   chan struct{}
	said    []string // before it was up
}

const configuration = `version: 0.1
log:
  level: info
  formatter: text
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: %s
http:
  addr: %s:0
`

// listening is what the registry logs when it is up. It chooses its port.
var listening = regexp.MustCompile(`listening on ([0-9.]+:\d+)`)

const limit = time.Minute

// Start starts the program, CNCF's registry, with its data in dir. It listens on this machine alone.
func Start(ctx context.Context, program, dir string) (*Registry, error) {
	return StartIn(ctx, program, dir, "", "127.0.0.1")
}

// StartIn starts one that listens at an address of a network. The network is the file of a namespace, and this
// process' own if it is empty.
func StartIn(ctx context.Context, program, dir, network, address string) (*Registry, error) {
	config := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, configuration, filepath.Join(dir, "data"), address), 0o600); err != nil {
		return nil, fmt.Errorf("cannot configure the registry: %w", err)
	}
	command := []string{program, "serve", config}
	if network != "" {
		command = append([]string{"nsenter", "--net=" + network, "--"}, command...)
	}
	r := &Registry{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	// It needs no key and no password of those who sign and push.
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "COSIGN_") || strings.HasPrefix(v, "REGISTRY_")
	})
	r.cmd.Env = append(environ, "OTEL_TRACES_EXPORTER=none")
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	said, err := r.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot read the registry's log: %w", err)
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the registry: %w", err)
	}
	up := make(chan string, 1)
	go r.follow(said, up)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case r.Address = <-up:
		return r, nil
	case <-r.ended:
		return nil, fmt.Errorf("cannot start the registry: it has ended:\n%s", strings.Join(r.said, "\n"))
	case <-ctx.Done():
		r.Stop()
		return nil, fmt.Errorf("cannot reach the registry: %w", ctx.Err())
	}
}

// follow reads the log to its end. It tells the address once.
func (r *Registry) follow(log io.Reader, up chan<- string) {
	defer close(r.ended)
	lines := bufio.NewScanner(log)
	told := false
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil && !told {
			told = true
			up <- m[1]
		} else if !told {
			r.said = append(r.said, lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, log) // a line that was too long for the scanner
	_ = r.cmd.Wait()                // it is ended by a signal
}

// Stop ends it.
func (r *Registry) Stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-r.ended:
	case <-time.After(10 * time.Second):
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
}
