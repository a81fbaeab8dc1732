package agent

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/pod/mainprocess"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
)

// newMain makes the main process of the container. Its words and its ends become events.
func (a *Agent) newMain() *mainprocess.Main {
	return mainprocess.New(mainprocess.Options{
		Program: a.daemon.program, Announces: a.daemon.announces, Root: a.Root, Table: a.Table, Kiosk: a.kiosk,
		NotifyPath: filepath.Join(a.Config.RunDir, "notify.sock"), UID: a.daemon.uid(), GID: a.daemon.gid(),
		Heard: a.heard, IsNoise: a.isNoise, Log: a.log,
		Started:     func(p *process.Process) { a.slurmdNode.Started(p) },
		Terminating: func(p *process.Process) { a.ctld.Stopping(p) },
		Ended:       func(p *process.Process, status process.Status) { a.ctld.Ended(p, status) },
		IsStopping:  func() bool { return a.published.Load().State == supervisor.Stopping },
		Changed:     func(pid int, began time.Time) { a.post(supervisor.MainChanged{PID: pid, At: began}) },
		Exited:      func(e mainprocess.Exit) { a.post(supervisor.MainExited(e)) },
		IsReady: func() {
			a.slurmdNode.IsReady()
			a.post(supervisor.MainReady{})
		},
	})
}

// start starts the daemon.
func (a *Agent) start() lifecycle.Event {
	p, err := a.main.Start(func() (process.Command, error) {
		if err := a.slurmdNode.BeforeStart(); err != nil {
			return process.Command{}, err
		}
		a.ctld.Starting()
		return a.daemon.command(a), nil
	})
	if err != nil {
		return supervisor.MainFailed{Err: err}
	}
	return supervisor.MainStarted{PID: p.PID(), At: process.Began(a.Root, p)}
}

// heard takes what matters out of a daemon's line, and passes it on.
func (a *Agent) heard(line process.Line) {
	if line.Level >= slog.LevelError {
		if t := a.daemon.troubled; t != nil && t(line.Text) && a.doubted.CompareAndSwap(false, true) {
			a.post(supervisor.Troubled{})
		}
		if away := a.daemon.away; away != nil && away(line.Text) {
			a.post(lifecycle.DatabaseAway{})
		}
	}
	a.slurmdNode.Heard(line)
	a.ctld.Heard(line)
	a.pass(line)
}

// isNoise says whether the cause of a daemon's error is known and harmless. It stays in the log, and is no error of the
// status. What passes by itself at a start may be what the start waits for.
func (a *Agent) isNoise(line string) (harmless, passes bool) {
	if a.slurmdNode.IsNoise(line) {
		return true, false
	}
	return a.ctld.IsNoise(line)
}

// newKiosk makes what users get the daemon's credentials by.
func (a *Agent) newKiosk() *sack.Kiosk {
	o := sack.KioskOptions{
		Root: a.Root, RunDir: a.Config.RunDir, HasKeys: a.keys != nil,
		Credential: a.daemon.credential, UID: a.daemon.uid(), GID: a.daemon.gid(),
		Environ: func() []string { return append(a.daemon.scontrolEnv(), a.keys.Env()...) },
		Table:   a.Table, Heard: a.pass, Alive: a.alive, Log: a.log,
	}
	if a.daemon.confCopy != nil {
		o.ConfDir = a.daemon.confCopy(a.Config)
	}
	return sack.NewKiosk(o)
}

// openSack bounds users' silent connections where slurmd or sackd gives them credentials. Agents that take turns share a
// machine and its socket, and start no daemon.
func (a *Agent) openSack() error {
	if !a.daemon.registers && !a.daemon.hosts || a.Turn != nil {
		return nil
	}
	return a.kiosk.Open()
}

func (a *Agent) newKeys() *authkeys.Keys {
	d := a.daemon
	return authkeys.New(d.keys, filepath.Join(a.Config.RunDir, "keys"), d.uid(), d.gid(), authkeys.Owners(d.uid(), a.Config.SlurmUser))
}

// slurmdKeyPause is how long slurmd goes on with its former keys. slurmctld, which may
// get the new ones at the same time, has every slurmd reconfigure itself then, and
// loses no launch only where they all answer.
const slurmdKeyPause = 15 * time.Second

// openKeys copies the keys, and has the daemon read changed ones. slurmctld's are brought up to date when
// its configuration is read.
func (a *Agent) openKeys() error {
	if err := a.keys.Take(); err != nil || a.life.Reloads {
		return err
	}
	return a.keys.Watch(a.alive.Done(), func(err error) {
		if err != nil {
			a.log(slog.LevelError, "the changed keys are refused; the last ones stay", slog.Any("error", err))
			return
		}
		a.log(slog.LevelInfo, "the cluster's keys have changed", slog.Any("keys", a.keys.Status()))
		read := supervisor.FilesChanged{Restart: !a.daemon.announces, Since: time.Now()}
		if a.daemon.registers {
			time.AfterFunc(slurmdKeyPause, func() { a.post(read) })
			return
		}
		a.post(read)
	})
}
