package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/process"
)

// sackSocket is where Slurm's commands get their credentials of auth/slurm, from slurmd
// or from sackd (Slurm's sack_api.c). 26.05 has a variable for another path, 24.11 none.
const sackSocket = "/run/slurm/sack.socket"

// firstDoubt is how long a command of Slurm's may take before slurmd is doubted. What
// is answered sooner, as everything is in a cluster that is well, costs nothing.
const firstDoubt = time.Second

// listenToSlurmd is told of every question to slurmctld. Where one takes long, slurmd
// may be what hangs: it gives scontrol no credentials then, and scontrol waits for ever.
func (a *Agent) listenToSlurmd() func(context.Context) {
	if !a.daemon.registers || a.daemon.keys == "" {
		return nil
	}
	return func(asked context.Context) {
		if a.listening.CompareAndSwap(false, true) {
			go func() {
				defer a.listening.Store(false)
				select {
				case <-asked.Done():
				case <-a.over:
				case <-time.After(firstDoubt):
					a.listenFor(time.Duration(a.silentLimit.Load()))
				}
			}()
		}
	}
}

// listenEvery is how often slurmd is listened to at the occasion of a probe. After
// SlurmdTimeout (slurm.conf(5)), 300 s, slurmctld takes the node for dead, and its jobs.
const listenEvery = time.Minute

// listenAtProbe looks whether slurmd answers, when the kubelet asks for its pod anyway.
func (a *Agent) listenAtProbe() {
	last, now := a.heardAt.Load(), time.Now().UnixNano()
	if listen := a.listenToSlurmd(); listen != nil && now-last >= int64(listenEvery) && a.heardAt.CompareAndSwap(last, now) {
		listen(context.Background())
	}
}

// listenWhileStopping looks at slurmd now and then on the way down. Steps that end while
// slurmd hangs cannot say so: slurmstepd has its credentials from slurmd, too.
func (a *Agent) listenWhileStopping() {
	for a.daemon.keys != "" {
		limit := time.Duration(a.silentLimit.Load())
		select {
		case <-a.over:
			return
		case <-time.After(max(limit/4, firstDoubt)):
			a.listenFor(limit)
		}
	}
}

// listenFor tells the owner of a slurmd that hangs. Without slurmctld another would not
// come up, and nothing could be asked.
func (a *Agent) listenFor(limit time.Duration) {
	main := a.mainProcess()
	if main == nil || !isSilent(filepath.Join(a.Root, sackSocket), limit) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if a.reachController(ctx) == nil {
		a.tell(slog.LevelError, "slurmd hangs: it takes connections on its socket and does not answer them", slog.String("socket", sackSocket), slog.Duration("for", limit))
		a.post(lifecycle.MainSilent{PID: main.PID()})
	}
}

// isSilent: somebody listens on the socket, and does not close a connection that is
// closed for writing, as slurmd and sackd do within milliseconds.
func isSilent(path string, limit time.Duration) bool {
	end := time.Now().Add(limit)
	for {
		conn, err := net.DialTimeout("unix", path, limit)
		switch {
		case err == nil:
			defer conn.Close()
			_ = errors.Join(conn.(*net.UnixConn).CloseWrite(), conn.SetReadDeadline(end)) // the answer, or none, is what counts
			_, err = conn.Read(make([]byte, 1))
			return errors.Is(err, os.ErrDeadlineExceeded)
		case !errors.Is(err, unix.EAGAIN): // others wait for an answer, so many that no more may
			return false
		case time.Now().After(end):
			return true
		}
		<-time.After(limit / 100)
	}
}

// speak starts a sackd in the place of a slurmd that cannot be used, and waits until it
// answers. It reads the copy of the configuration that slurmd has fetched: with a
// configuration of its own sackd 24.11 would want slurmd's port.
func (a *Agent) speak(ctx context.Context) error {
	if a.daemon.keys == "" {
		return errors.New("the cluster does not use auth/slurm")
	}
	path, err := process.Find("sackd")
	if err != nil {
		return err
	}
	output, err := process.NewOutput("sackd", func(line process.Line) {
		a.Observe(Notice{Level: line.Level, Source: line.Source, Text: line.Text})
	})
	if err != nil {
		return err
	}
	socket := filepath.Join(a.Root, sackSocket)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot replace slurmd's socket: %w", err)
	}
	p, err := a.Table.Start(process.Command{
		Path: path, Args: []string{"-D", "-f", filepath.Join(confCache(a.Config), "slurm.conf")}, Dir: "/",
		Env: append(a.daemon.scontrolEnv(), a.keyEnv()...), Stdout: output.File(), Stderr: output.File(),
	})
	if err != nil {
		return err
	}
	a.voice.Store(p)
	for {
		if conn, err := net.DialTimeout("unix", socket, time.Second); err == nil {
			conn.Close()
			a.tell(slog.LevelWarn, "sackd gives scontrol its credentials in the place of slurmd")
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("sackd: %s", p.Status().String())
		case <-ctx.Done():
			return errors.New("sackd does not answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// endVoice ends the sackd that was started.
func (a *Agent) endVoice() {
	if p := a.voice.Load(); p != nil {
		_ = p.Signal(unix.SIGKILL) // it may be over
	}
}
