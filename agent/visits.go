package agent

import (
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/process"
	"github.com/slurmlet/slurmlet/internal/sshd"
)

// visits are the sessions of a login pod.
type visits struct {
	logins sshd.Logins
	// count is how many sessions there are; entered rings when there may be another one.
	count   atomic.Int64
	entered bell
}

// SessionStatus is somebody who is logged in.
type SessionStatus struct {
	User string `json:"user"`
	// From is an address; empty when sshd's log has not told it.
	From  string    `json:"from,omitempty"`
	Since time.Time `json:"since"`
	PID   int       `json:"pid"`
}

func (a *Agent) sessions() []SessionStatus {
	if !a.daemon.hosts {
		return nil
	}
	found, err := sshd.Sessions(a.Root)
	if err != nil {
		a.tell(slog.LevelError, "cannot list the sessions", slog.Any("error", err))
	}
	var all []SessionStatus
	for _, s := range found {
		if since, err := startTime(a.Root, s.PID); err == nil {
			all = append(all, SessionStatus{s.User, a.visits.logins.From(s), since, s.PID})
		}
	}
	return all
}

// seeOff keeps new sessions out: who is just coming in is turned away, and then
// the port is closed. Sessions outlive the sshd that took their connection.
func (a *Agent) seeOff(until time.Duration) []event {
	if err := os.WriteFile(nologin, []byte(farewell(until)), 0o644); err != nil {
		a.tell(slog.LevelWarn, "cannot keep logins out", slog.Any("error", err))
	}
	a.warnSessions(until)
	go a.awaitSessions()
	return a.stopService("sshd")
}

// farewell is what users are told.
func farewell(left time.Duration) string {
	return fmt.Sprintf("\r\nslurmlet: this login node is being stopped. Sessions end at %s (in %v). Jobs go on.\r\n",
		time.Now().Add(left).Format("15:04:05 MST"), left.Round(time.Second))
}

// warnSessions writes to the terminals, as wall(1) does where there is a utmp.
func (a *Agent) warnSessions(left time.Duration) {
	text := []byte(farewell(left))
	found, err := sshd.Sessions(a.Root)
	if err != nil {
		a.tell(slog.LevelWarn, "cannot warn the sessions", slog.Any("error", err))
	}
	for _, s := range found {
		terminals, err := sshd.Terminals(a.Root, s)
		for _, path := range terminals {
			if failed := writeTerminal(path, text); failed != nil {
				err = failed
			}
		}
		if err != nil {
			a.tell(slog.LevelWarn, "cannot warn a session", slog.String("user", s.User), slog.Any("error", err))
		}
	}
}

// writeTerminal never waits: one that was stopped (Ctrl-S) takes nothing.
func writeTerminal(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = f.Write(text)
	return err
}

// awaitSessions waits for one after the other, until there is none.
func (a *Agent) awaitSessions() {
	for {
		visitors := a.visitors()
		if len(visitors) == 0 {
			a.post(sessionsOver{})
			return
		}
		select {
		case <-visitors[0].Done():
		case <-a.over:
			return
		}
	}
}

func (a *Agent) endSessions(kill bool) {
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	for _, p := range a.visitors() {
		_ = p.Signal(sig) // it is over
	}
}

// visitors are the processes of the sessions.
func (a *Agent) visitors() []*process.Process {
	found, err := sshd.Sessions(a.Root)
	if err != nil {
		a.tell(slog.LevelError, "cannot list the sessions", slog.Any("error", err))
	}
	var all []*process.Process
	for _, s := range found {
		if p, err := a.Table.Adopt(s.PID); err == nil {
			all = append(all, p)
		}
	}
	return all
}
