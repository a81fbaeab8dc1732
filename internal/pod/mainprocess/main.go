// Package mainprocess runs the main process of a container: Slurm's daemon, and whatever the daemon hands over to.
package mainprocess

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Options are the surroundings of a Main. Its functions are called one after the other, but for Heard and IsNoise.
type Options struct {
	// Program is the daemon's name.
	Program string
	// Announces: it takes --systemd, says READY itself and hands over to a successor (sd_notify(3)).
	Announces bool
	// Root is where the machine's file system begins.
	Root string
	// NotifyPath is the socket for its notifications, which UID and GID may write to.
	NotifyPath string
	UID, GID   int
	Table      *process.Table
	// Kiosk gives users the daemon's credentials.
	Kiosk *sack.Kiosk

	// Heard gets each line of the daemon's, without secrets. IsNoise says of an error whether its cause is harmless,
	// and whether it passes by itself.
	Heard   func(process.Line)
	IsNoise func(line string) (harmless, passes bool)
	// Started is called with each new daemon, Terminating before it gets SIGTERM, and Ended when the main process has
	// ended.
	Started, Terminating func(*process.Process)
	Ended                func(*process.Process, process.Status)
	// IsStopping says whether the agent is on its way down.
	IsStopping func() bool
	// Changed, IsReady and Exited make events of what becomes of it.
	Changed func(pid int, began time.Time)
	IsReady func()
	Exited  func(Exit)
	Log     func(level slog.Level, text string, attrs ...slog.Attr)
}

// Exit is the end of a process that was the main one once.
type Exit struct {
	PID  int
	Code int
	// What says how it ended, with its last words.
	What   string
	Uptime time.Duration
}

// Main is a container's main process.
type Main struct {
	Options
	notify *notify.Server
	output *process.Output
	words  words
	early  early

	lock    sync.Mutex // held while a daemon is started, so that its READY meets a known pid
	process *process.Process
	former  *process.Process // has handed over and may not have ended yet
}

// New makes a Main that is not started. Its output and its notifications come with Open.
func New(o Options) *Main { return &Main{Options: o} }

// Open opens the notify socket and the pipe for the daemon's output.
func (m *Main) Open() (err error) {
	if m.notify, err = notify.Listen(m.NotifyPath, m.UID, m.GID); err != nil {
		return err
	}
	m.notify.Overhear = m.early.hear
	if m.output, err = process.NewOutput(m.Program, m.heard); err != nil {
		return errors.Join(err, m.notify.Close())
	}
	return nil
}

// Close closes the notify socket.
func (m *Main) Close() { _ = m.notify.Close() } // the process ends

// Serve takes notifications until Close.
func (m *Main) Serve() {
	if err := m.notify.Serve(m.isMain, m.notified, m.refused); err != nil {
		m.Log(slog.LevelError, "cannot receive notifications any more", slog.Any("error", err))
	}
}

// Flush returns when all that the daemon has written was heard.
func (m *Main) Flush() { m.output.Flush() }

// heard passes a daemon's line on and remembers its last error: often the only explanation of its end.
func (m *Main) heard(line process.Line) {
	line.Text = slurmconf.Hide(line.Text)
	if line.Level >= slog.LevelError {
		m.words.note(line.Text, m.IsNoise)
	}
	m.Heard(line)
	m.heardHandOver(line.Text)
}

// Start starts the daemon; command says how. The notify server waits meanwhile: a READY that came before the pid is known
// would be refused as a stranger's.
func (m *Main) Start(command func() (process.Command, error)) (*process.Process, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	c, err := command()
	if err != nil {
		return nil, err
	}
	if m.Announces { // a failed reconfigure then leaves the old process in place, where -D would end it
		c.Args, c.Env = append([]string{"--systemd"}, c.Args...), append(c.Env, "NOTIFY_SOCKET="+m.notify.Path())
	}
	c.Stdout, c.Stderr = m.output.File(), m.output.File()
	p, err := m.Kiosk.Start(c)
	if err != nil {
		return nil, err
	}
	m.Started(p)
	m.takeOver(p)
	return p, nil
}

// takeOver makes p the main process. It is called with lock held.
func (m *Main) takeOver(p *process.Process) {
	m.process = p
	go m.watch(p)
}

// watch reports the end of p, after everything that was said before it: the daemon that hands over sends MAINPID and exits
// at once.
func (m *Main) watch(p *process.Process) {
	<-p.Done()
	m.notify.Flush()
	m.output.Flush()
	status := p.Status()
	what := m.words.epitaph(m.Program, p, status)
	if m.forget(p) {
		m.Ended(p, status)
		if !m.IsStopping() && status.ExitCode() != 0 {
			m.words.end.Store(&Words{At: time.Now(), Text: what})
		}
	}
	m.Exited(Exit{PID: p.PID(), Code: status.ExitCode(), What: what, Uptime: time.Since(p.Started())})
}

// forget ends the hearing of a process that is over: its pid may become somebody else's. It says whether the process was
// the main one.
func (m *Main) forget(p *process.Process) (wasMain bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.former == p {
		m.former = nil
	}
	if m.process == p {
		m.process = nil
		m.Kiosk.Ended()
		return true
	}
	return false
}

// Signal signals the main process, if there is one.
func (m *Main) Signal(s unix.Signal) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.process == nil {
		return
	}
	if s == unix.SIGTERM {
		m.Terminating(m.process)
	}
	err := m.process.Signal(s)
	if err != nil && !errors.Is(err, process.ErrExited) {
		m.Log(slog.LevelError, "cannot signal the daemon", slog.Any("error", err), slog.String("signal", unix.SignalName(s)))
	}
}

// Process is the main process, nil for none.
func (m *Main) Process() *process.Process {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.process
}

// PIDs are those of the main process and of one that has handed over, with that of a sackd in a slurmd's place.
func (m *Main) PIDs() (pids []int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, p := range []*process.Process{m.process, m.former, m.Kiosk.Sackd()} {
		if p != nil {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// LastWords are the last error of the living daemon, empty for none.
func (m *Main) LastWords() string {
	m.lock.Lock()
	defer m.lock.Unlock()
	said := m.words.any.Load()
	if said == nil || m.process == nil || said.At.Before(m.process.Started()) {
		return ""
	}
	return said.Text
}

// LastError is the last line of the daemon that was an error, nil for none.
func (m *Main) LastError() *Words { return m.words.error.Load() }

// LastEnd is how the main process has ended last that nobody had told to end, nil for none.
func (m *Main) LastEnd() *Words { return m.words.end.Load() }
