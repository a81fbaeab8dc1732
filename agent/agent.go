package agent

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/bell"
	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/link/podnames"
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/pod/mainprocess"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
	"github.com/slurmlet/slurmlet/internal/pod/services"
	"github.com/slurmlet/slurmlet/internal/pod/systemd"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmd"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
)

// Agent owns one container's life. One goroutine, Run's, owns the state; all
// others turn the world into events for it. What a role does not have is nil.
type Agent struct {
	Options
	daemon daemon
	// began is the time at which the agent was started, by the container's clock.
	began time.Time
	// alive ends with the agent.
	alive context.Context

	life      lifecycle.State
	events    chan lifecycle.Event
	published published
	// doubted says that the goroutine that owns the state has been told of trouble, and has not looked yet.
	doubted atomic.Bool

	main *mainprocess.Main
	// kiosk is through which users and the agent get their credentials.
	kiosk *sack.Kiosk
	keys  *authkeys.Keys
	// helpers are sssd and sshd, and userSessions those of sshd, nil where there is none.
	helpers      *services.Services
	userSessions *login.Login
	unit         systemd.Unit
	// client asks slurmctld.
	client *slurm.Questions
	// names are those of the cluster's pods, nil without SLURMLET_PEERS.
	names *podnames.Names
	// follower is nil where the daemon fetches no configuration.
	follower *confsync.Follower

	ctld       *slurmctld.Pod
	slurmdNode *slurmd.Node
	database   *slurmdbd.Database
}

// published is what other goroutines read: the last status, with a bell that rings for each.
type published struct {
	atomic.Pointer[Status]
	bell.Bell
	// installed is the version of the daemon's Slurm, nil until it is known.
	installed atomic.Pointer[releases.Version]
}

// Options are the agent's surroundings.
type Options struct {
	Config  Config
	Version string
	// Root is where the machine's file system begins: "/" but in tests.
	Root string
	// Environ is handed on to the daemon, without what is the agent's own.
	Environ []string
	// Table is fed by pid1.Run.
	Table   *process.Table
	Signals <-chan os.Signal
	// Observe is told what a log should hold. It must not block for long.
	Observe func(Notice)
	// LinesLost is how many lines nobody read in time.
	LinesLost func() int64
	// Turn, if there is one, waits until a command of Slurm's may run, and done is called after its
	// end: thousands of agents in one program share a machine (e2e/figures/scale).
	Turn func(context.Context) (done func(), err error)
}

// Notice is something worth a line in the log.
type Notice struct {
	Level slog.Level
	// Source is "slurmlet", or the daemon whose line this is.
	Source string
	Text   string
	Attrs  []slog.Attr
}

// Source names the agent where its own notices stand beside the daemon's lines.
const Source = "slurmlet"

func (a *Agent) log(level slog.Level, text string, attrs ...slog.Attr) {
	a.Observe(Notice{Level: level, Source: Source, Text: text, Attrs: attrs})
}

// pass logs a line of another program.
func (a *Agent) pass(line process.Line) {
	a.Observe(Notice{Level: line.Level, Source: line.Source, Text: line.Text})
}

// post hands an event to the owner; after the end nobody is interested.
func (a *Agent) post(e lifecycle.Event) {
	select {
	case a.events <- e:
	case <-a.alive.Done():
	}
}
