package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// start starts the daemon. The notify server waits meanwhile: a READY that
// came before the pid is known would be refused as a stranger's.
func (a *Agent) start() lifecycle.Event {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	if err := a.node.BeforeStart(); err != nil {
		return supervisor.MainFailed{Err: err}
	}
	a.ctld.Starting()
	p, err := a.door.start(a, a.daemon.command(a))
	if err != nil {
		return supervisor.MainFailed{Err: err}
	}
	a.node.Started(p)
	a.takeOver(p)
	return supervisor.MainStarted{PID: p.PID(), At: process.Began(a.Root, p)}
}

// takeOver makes p the main process. It is called with mainLock held.
func (a *Agent) takeOver(p *process.Process) {
	a.process = p
	go a.watch(p)
}

// watch reports the end of p, after everything that was said before it: the
// daemon that hands over sends MAINPID and exits at once.
func (a *Agent) watch(p *process.Process) {
	<-p.Done()
	a.notify.Flush()
	a.output.Flush()
	status := p.Status()
	if a.forget(p) {
		a.ctld.Ended(p, status)
		a.noteEnd(p, status)
	}
	a.post(supervisor.MainExited{
		PID:    p.PID(),
		Code:   status.ExitCode(),
		What:   a.epitaph(p, status),
		Uptime: time.Since(p.Started()),
	})
}

func (a *Agent) epitaph(p *process.Process, status process.Status) string {
	what := a.daemon.program + ": " + status.String()
	if last := a.lastSaid.Load(); last != nil && last.At.After(p.Started()) && status.Signal == 0 {
		what += ": " + last.Text
	}
	return what
}

// isMain accepts the main process's messages, and no other's: users' processes
// share the pod, and some are the daemon's descendants. A daemon that has
// handed over sends its barrier afterwards, so it is heard until its end.
func (a *Agent) isMain(pid, _, _ int) bool {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	return a.process != nil && a.process.PID() == pid || a.former != nil && a.former.PID() == pid
}

// notified adopts a process that MAINPID names at once, while it is sure to be
// the one that was meant: its barrier is released when this returns.
func (a *Agent) notified(m notify.Message) {
	if m.MainPID != 0 && m.MainPID != m.PID {
		p, err := a.adopt(m.MainPID, m.PID)
		if err != nil {
			a.log(slog.LevelError, "cannot follow the daemon's hand-over", slog.Any("error", err), slog.Int("pid", m.MainPID))
			return
		}
		a.post(supervisor.MainChanged{PID: p.PID(), At: process.Began(a.Root, p)})
	}
	if m.Ready {
		a.openDoor()
		a.node.IsReady()
		a.post(supervisor.MainReady{})
	}
}

// adopt makes pid the main process, by the word of the present one; or whom pid has named itself in
// the meantime, because its predecessor's word was late.
func (a *Agent) adopt(pid, by int) (*process.Process, error) {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	if a.process == nil || a.process.PID() != by {
		return nil, fmt.Errorf("process %d has handed over before", by)
	}
	p, err := a.Table.Adopt(a.early.last(pid, time.Now()))
	if err == nil {
		a.former = a.process
		a.takeOver(p)
	}
	return p, err
}

// forget ends the hearing of a process that is over: its pid may become
// somebody else's. It says whether the process was the main one.
func (a *Agent) forget(p *process.Process) (wasMain bool) {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	if a.former == p {
		a.former = nil
	}
	if a.process == p {
		a.process = nil
		a.door.shut()
		return true
	}
	return false
}

// noteEnd remembers the end of a main process that nobody has told to end.
func (a *Agent) noteEnd(p *process.Process, status process.Status) {
	if phase := a.status.Load().State; phase != supervisor.Stopping && status.ExitCode() != 0 {
		a.lastEnd.Store(&LastError{At: time.Now(), Text: a.epitaph(p, status)})
	}
}

func (a *Agent) refused(r notify.Refusal) {
	a.log(slog.LevelWarn, "a notification was refused",
		slog.Int("pid", r.PID), slog.Int("uid", r.UID), slog.Any("error", r.Reason), slog.Int("unreported", r.Unreported))
}

var signals = map[supervisor.MainSignal]unix.Signal{supervisor.SigTerm: unix.SIGTERM, supervisor.SigHup: unix.SIGHUP, supervisor.SigKill: unix.SIGKILL}

func (a *Agent) signal(s supervisor.MainSignal) {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	if a.process == nil {
		return
	}
	if s == supervisor.SigTerm {
		a.ctld.Stopping(a.process)
	}
	err := a.process.Signal(signals[s])
	if err != nil && !errors.Is(err, process.ErrExited) {
		a.log(slog.LevelError, "cannot signal the daemon", slog.Any("error", err), slog.String("signal", string(s)))
	}
}
