package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/bell"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmd"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Agent owns one container's life. One goroutine, Run's, owns the state; all
// others turn the world into events for it.
type Agent struct {
	Options
	daemon daemon
	notify *notify.Server
	output *process.Output
	// client asks slurmctld.
	client *slurm.Questions
	// ctld is what only slurmctld's pod has, nil for other roles.
	ctld *slurmctld.Pod
	// asker asks slurmctld's agent for changes of the node's record, and slurmctld itself where
	// that is away.
	asker *ask.Asker

	// began is when the agent was started.
	began  time.Time
	life   lifecycle.State
	events chan lifecycle.Event
	// alive ends with the agent.
	alive  context.Context
	over   chan struct{} // closed when nobody reads events any more
	status atomic.Pointer[Status]

	turns turns
	// asked is cancelled with the question that it belongs to.
	cancelQuestion context.CancelFunc

	// sackd gives scontrol its credentials in slurmd's place; only one goroutine starts it.
	sackd atomic.Pointer[process.Process]
	// door is what users and the agent get their credentials through; its door is nil where the daemon's socket is its own.
	door  door
	crowd crowd

	mainLock sync.Mutex // held while a daemon is started, so that its READY meets a known pid
	process  *process.Process
	former   *process.Process // has handed over and may not have ended yet
	early    early

	// lastSaid is the last error that may say what a start waits for, or why the daemon has ended; lastError is none that
	// passes by itself.
	lastError, lastSaid atomic.Pointer[LastError]

	unit        unit
	clusterKeys clusterKeys
	// follower is nil where the daemon fetches no configuration.
	follower *confsync.Follower
	// node is slurmd's, nil for other roles.
	node *slurmd.Node
	// lastEnd is how the main process has ended last that ended by itself.
	lastEnd   atomic.Pointer[LastError]
	published bell.Bell // a status
	// interrupted: SIGINT was received; only listen's goroutine knows.
	interrupted bool
	// stopped is when SIGTERM came; only the owner knows.
	stopped time.Time

	// doubted: the owner has been told of trouble, and has not looked yet.
	doubted atomic.Bool
	// database is slurmdbd's, nil for other roles.
	database *slurmdbd.Database
	// login is what users come in by.
	loginServices  *login.Login
	sessionCgroups sessionCgroups
	// members are the cluster's pods, nil without SLURMLET_PEERS.
	members *membership
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

// Source of the agent's own notices.
const Source = "slurmlet"

// Run lives the container's life and returns the program's exit status. It
// must not run on the main goroutine (internal/pod/pid1).
func Run(ctx context.Context, o Options) (int, error) {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	a := &Agent{Options: o, began: time.Now(), alive: alive, events: make(chan lifecycle.Event, 16), over: make(chan struct{})}
	if err := a.prepare(); err != nil {
		return codeOf(err), err
	}
	defer a.notify.Close()
	servers, err := a.serve()
	if err != nil {
		return codeOf(err), err
	}
	defer servers.close()
	a.listen(ctx)
	return a.own(), nil
}

func codeOf(err error) int {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Code
	}
	return ExitFailure
}

// prepare does all that can fail for good, before anything is started.
func (a *Agent) prepare() error {
	var err error
	if a.daemon, err = findDaemon(a.Config); err != nil {
		return err
	}
	p := lifecycle.Plan{
		Role: lifecycle.Role{
			Registers: a.daemon.registers, Hosts: a.daemon.hosts, Reloads: a.daemon.reloads, Converts: a.daemon.converts,
		},
		Plan:      supervisor.Plan{Restarts: a.daemon.restarts, Announces: a.daemon.announces, Reaches: a.daemon.reach != nil},
		Node:      node.Plan{Elastic: a.Config.Elastic && a.daemon.registers, GresConf: gresConf(a.Config), Signals: a.Config.JobSignal.Name != ""},
		Deadlines: deadlines.New(a.Config.Grace, a.Config.JobSignal.Lead),
		Lead:      a.Config.JobSignal.Lead,
	}
	if err := a.secureDirectories(); err != nil {
		return err
	}
	a.life = lifecycle.New(p, nodesize.Allocation{})
	programs := a.daemon.programs
	a.turns = newTurns(p.Registers)
	scontrol := slurm.Scontrol{
		Path: programs["scontrol"], Scancel: programs["scancel"], Sinfo: programs["sinfo"], Squeue: programs["squeue"], Sdiag: programs["sdiag"],
		Env: a.daemon.scontrolEnv(), Asked: a.asked, Turn: a.turn,
	}
	a.client = &slurm.Questions{Client: scontrol, Least: node.QuestionLimit, Done: a.over, Log: a.log}
	a.asker = &ask.Asker{Prover: a.prover(), Controller: a.Config.Controller, Log: a.log}
	if a.Config.Merge {
		a.asker.AgentPort = a.Config.AgentPort
	}
	if p.Registers {
		if err := a.openNode(); err != nil {
			return err
		}
	}
	if p.Reloads {
		a.ctld = a.newSlurmctld(scontrol)
	}
	return a.open()
}

func (a *Agent) open() error {
	if err := os.MkdirAll(a.Config.RunDir, 0o755); err != nil {
		return fmt.Errorf("cannot make SLURMLET_RUN_DIR: %w", err)
	}
	err := errors.Join(a.node.WriteGres(gresConf(a.Config)), a.daemon.makeRuntime(), a.openKeys(), a.delegateSessions(), a.makeDoor())
	if err == nil && a.daemon.open != nil {
		err = a.daemon.open(a)
	}
	if err == nil {
		a.loginServices, err = login.Open(a.loginOptions())
	}
	if err != nil {
		return err
	}
	if a.notify, err = notify.Listen(a.notifyPath(), a.daemon.uid(), a.daemon.gid()); err != nil {
		return err
	}
	a.notify.Overhear = a.early.hear
	if a.output, err = process.NewOutput(a.daemon.program, a.heard); err != nil {
		return errors.Join(err, a.notify.Close())
	}
	if a.life.Reloads {
		a.openSlurmctld()
	}
	if a.daemon.confCopy != nil && a.Config.AgentPort != 0 {
		a.follower = a.newFollower()
	}
	if a.Config.Peers != "" {
		if err := a.openMembership(); err != nil {
			return err
		}
	}
	a.publish(a.life)
	return nil
}

// newFollower follows the configuration that the daemon fetches from slurmctld.
func (a *Agent) newFollower() *confsync.Follower {
	name := ""
	if a.daemon.registers {
		name = a.Config.NodeName
	}
	return confsync.NewFollower(confsync.FollowerOptions{
		Prover: a.prover(), Node: name, Without: a.node.Without(),
		Controller: a.Config.Controller, AgentPort: a.Config.AgentPort,
		Program: a.daemon.program, Copy: filepath.Join(a.Root, a.daemon.confCopy(a.Config)),
		Done: a.over, Log: a.log,
		Ready:   func() bool { return a.status.Load().State == supervisor.Ready },
		Restart: func() { a.post(supervisor.Outdated{}) },
		Lost:    func() { a.post(node.ControllerLost{}) },
	})
}

// prover proves to slurmctld's agent that this one has the cluster's key.
func (a *Agent) prover() *proof.Client { return &proof.Client{Keys: a.clusterKeys.current.Load} }

// heard passes a daemon's line on and remembers its last error: often the only
// explanation of its end.
func (a *Agent) heard(line process.Line) {
	line.Text = slurmconf.Hide(line.Text)
	if line.Level >= slog.LevelError {
		a.heardError(line.Text)
		if t := a.daemon.troubled; t != nil && t(line.Text) && a.doubted.CompareAndSwap(false, true) {
			a.post(supervisor.Troubled{})
		}
		if away := a.daemon.away; away != nil && away(line.Text) {
			a.post(lifecycle.DatabaseAway{})
		}
	}
	a.node.Heard(line)
	a.ctld.Heard(line)
	a.heardLastWords(line.Text)
	a.Observe(Notice{Level: line.Level, Source: line.Source, Text: line.Text})
}

func (a *Agent) log(level slog.Level, text string, attrs ...slog.Attr) {
	a.Observe(Notice{Level: level, Source: Source, Text: text, Attrs: attrs})
}

// listen starts the goroutines that turn signals and notifications into events.
func (a *Agent) listen(ctx context.Context) {
	if a.life.Registers {
		a.node.Start(a.alive)
	}
	if a.follower != nil {
		go a.follower.Run()
	}
	a.ctld.Run()
	if a.members != nil {
		go a.members.run(a.alive)
	}
	go a.watchdog()
	go func() {
		if err := a.notify.Serve(a.isMain, a.notified, a.refused); err != nil {
			a.log(slog.LevelError, "cannot receive notifications any more", slog.Any("error", err))
		}
	}()
	go func() {
		for {
			select {
			case s := <-a.Signals:
				a.signalled(s)
			case <-ctx.Done():
				a.post(supervisor.Terminated{At: time.Now(), Signal: "the context's end"})
				return
			case <-a.over:
				return
			}
		}
	}()
}

// dump logs all there is to know about the agent, for whoever looks for a fault.
func (a *Agent) dump() {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	a.log(slog.LevelInfo, "SIGQUIT received", slog.Any("status", a.Status()), slog.String("goroutines", string(stacks)))
}
