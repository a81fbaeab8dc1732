package login

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/services"
	"github.com/slurmlet/slurmlet/internal/pod/sshd"
)

// SessionStatus is somebody who is logged in.
type SessionStatus struct {
	User string `json:"user"`
	// From is an address; empty when sshd's log does not have it.
	From  string    `json:"from,omitempty"`
	Since time.Time `json:"since"`
	PID   int       `json:"pid"`
}

// Sessions lists those that there are. It searches /proc.
func (l *Login) Sessions() []SessionStatus {
	if l == nil {
		return nil
	}
	var all []SessionStatus
	for _, s := range l.find() {
		if since, err := process.StartTime(l.Root, s.PID); err == nil {
			all = append(all, SessionStatus{s.User, l.logins.From(s), since, s.PID})
		}
	}
	return all
}

// Count is how many sessions there are, and searches nothing.
func (l *Login) Count() int {
	if l == nil {
		return 0
	}
	return int(l.count.Load())
}

func (l *Login) find() []sshd.Session {
	found, err := sshd.Sessions(l.Root)
	if err != nil {
		l.Log(slog.LevelError, "cannot list the sessions", slog.Any("error", err))
	}
	return found
}

// processes adopts the sessions' processes. One that has ended meanwhile is left out.
func (l *Login) processes() []*process.Process {
	var all []*process.Process
	for _, s := range l.find() {
		if p, err := l.Table.Adopt(s.PID); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// settled are the times, one after the other, after which a session exists that sshd has accepted. Its processes are with
// those of all newcomers until it is found.
var settled = []time.Duration{
	10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Second, 10 * time.Second,
}

// countSessions counts when sshd has let somebody in and when a session has ended, so that
// nobody who asks for the number has /proc searched.
func (l *Login) countSessions() {
	due := time.NewTimer(0)
	looks := len(settled)
	followed, placed := map[int]bool{}, map[int]bool{}
	ended := make(chan int)
	for {
		select {
		case <-l.Done:
			return
		case <-l.accepted:
			due.Reset(settled[0])
			looks = 1
		case pid := <-ended:
			delete(followed, pid)
			delete(placed, pid)
			due.Reset(0)
		case <-due.C:
			all := l.processes()
			l.count.Store(int64(len(all)))
			l.leaverKeeper.Wake()
			for _, p := range all {
				if !followed[p.PID()] {
					followed[p.PID()] = true
					go l.reportEnd(p, ended)
				}
				if placed[p.PID()] {
					continue
				}
				if uid := sshd.UID(l.Root, p.PID()); uid >= 0 { // each question searches /proc
					placed[p.PID()] = true
					l.userCgroups.begin(uid, p.PID())
				}
			}
			l.userCgroups.sweep()
			if looks < len(settled) {
				due.Reset(settled[looks])
				looks++
			}
		}
	}
}

func (l *Login) reportEnd(p *process.Process, ended chan<- int) {
	select {
	case <-p.Done():
	case <-l.Done:
		return
	}
	l.userCgroups.end()
	select {
	case ended <- p.PID():
	case <-l.Done:
	}
}

// DrainSessions keeps new sessions out, and warns those that may stay until so long from now:
// nologin turns away whoever is just coming in, and then sshd's port is closed. Sessions outlive
// the sshd that took their connection. over runs when the last one has ended.
func (l *Login) DrainSessions(until time.Duration, over func()) {
	l.WarnSessions(until)
	go func() {
		if l.awaitSessions() {
			over()
		}
	}()
	l.server.Stop()
}

// notice returns the text that logged-in users read before the pod ends.
func notice(left time.Duration) string {
	return fmt.Sprintf("\r\nslurmlet: this login node is being stopped. Sessions end at %s (in %v). Jobs go on.\r\n",
		time.Now().Add(left).Format("15:04:05 MST"), left.Round(time.Second))
}

// WarnSessions writes to the terminals, as wall(1) does where there is a utmp, and greets whoever comes with the same.
func (l *Login) WarnSessions(left time.Duration) {
	text := []byte(notice(left))
	if err := os.WriteFile(services.Nologin, text, 0o644); err != nil {
		l.Log(slog.LevelWarn, "cannot keep logins out", slog.Any("error", err))
	}
	found, err := sshd.Sessions(l.Root)
	if err != nil {
		l.Log(slog.LevelWarn, "cannot warn the sessions", slog.Any("error", err))
	}
	for _, s := range found {
		l.tell(s, text)
	}
}

// tell writes to a session's terminals, which a command without one does not have.
func (l *Login) tell(s sshd.Session, text []byte) {
	terminals, err := sshd.Terminals(l.Root, s)
	for _, path := range terminals {
		if failed := writeTerminal(path, text); failed != nil {
			err = failed
		}
	}
	if err != nil {
		l.Log(slog.LevelWarn, "cannot warn a session", slog.String("user", s.User), slog.Any("error", err))
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
func (l *Login) awaitSessions() bool {
	for {
		all := l.processes()
		if len(all) == 0 {
			return true
		}
		select {
		case <-all[0].Done():
		case <-l.Done:
			return false
		}
	}
}

// EndSessions asks the sessions to end, or kills them.
func (l *Login) EndSessions(kill bool) {
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	for _, p := range l.processes() {
		_ = p.Signal(sig) // it is over
	}
}

// heard looks for a login in a line of sshd's log.
func (l *Login) heard(line string) {
	user, from, ok := sshd.Accepted(line)
	if !ok {
		return
	}
	if pending, err := sshd.Pending(l.Root); err == nil {
		l.logins.Add(user, from, pending)
	}
	select {
	case l.accepted <- struct{}{}:
	default: // it is looked for already
	}
}
