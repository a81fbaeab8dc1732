// Package slurmd is what only slurmd's pod has: the node with its record, steps and jobs.
//
// The agent builds a Node for the role slurmd, has it perform the actions of lifecycle that are a node's, and shows its
// Status. Packages below have a subject each, and this one puts them together.
package slurmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/bell"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
	"github.com/slurmlet/slurmlet/internal/pod/tempdirs"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/containers"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
	"github.com/slurmlet/slurmlet/internal/slurmd/hang"
	"github.com/slurmlet/slurmlet/internal/slurmd/holds"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
	"github.com/slurmlet/slurmlet/internal/slurmd/machine"
	"github.com/slurmlet/slurmlet/internal/slurmd/podsize"
	"github.com/slurmlet/slurmlet/internal/slurmd/record"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
	"github.com/slurmlet/slurmlet/internal/slurmd/usage"
	"github.com/slurmlet/slurmlet/internal/slurmd/userfiles"
)

// Settings are what the environment says of the node. docs/reference/settings.md has the reference.
type Settings struct {
	// Name is the node's in Slurm, Machine the Kubernetes node, empty where it is not known.
	Name, Machine string
	// Elastic: slurmctld itself starts and ends the node.
	Elastic bool
	// SizeOptions is what is to be measured, and GresChoice which devices.
	SizeOptions   podsize.Options
	GresChoice    devices.Choice
	CgroupOptions cgroups.Options
	// JobMetrics is how many jobs have metrics of their own.
	JobMetrics int
	JobSignal  jobs.Signal
	Leftovers  userfiles.Leftovers
	// Places are the directories of several users.
	Places tempdirs.Places
	// GresConf is the file that the cluster's gres.conf includes.
	GresConf string
	// Containers is the program that makes jobs' containers, empty for a node that makes none.
	Containers string
	// HasKeys: Slurm's commands get their credentials of auth/slurm from slurmd.
	HasKeys bool
}

// Changes has slurmctld change the node's record: by slurmctld's agent, and where that is away directly.
type Changes interface {
	// Make makes a change of the record. A reason is that of a drain and of DOWN, and conf what slurmd registers.
	Make(ctx context.Context, verb node.Verb, reason, conf string) error
	// Recount has the allocated CPUs of all nodes counted anew, or calls direct.
	Recount(ctx context.Context, direct func(context.Context) error) error
}

// Options are the node's surroundings.
type Options struct {
	Settings
	// Root is where the machine's file system begins.
	Root    string
	Slurm   *slurm.Questions
	Changes Changes
	// Post hands an event to the agent's loop. Inquire has it ask in the background, one question at a time.
	Post    func(lifecycle.Event)
	Inquire func(question func(context.Context) lifecycle.Event)
	// Done is closed when the loop has ended.
	Done <-chan struct{}
	// State is the agent's, and when it came into it. Published rings when it changes.
	State     func() (supervisor.Phase, time.Time)
	Published *bell.Bell
	// WriteStatus writes the metrics of the agent's status.
	WriteStatus func(io.Writer) error
	// Main is the main process, nil for none. Daemons are all processes that the agent runs for Slurm, Helpers the
	// services beside them.
	Main             func() *process.Process
	Daemons, Helpers func() []int
	// NewExtra is a mark for the next slurmd, empty where the site gives nodes an Extra of its own.
	NewExtra func() string
	// SackdSpeaks says whether a sackd gives credentials in slurmd's place. StartSackd starts one.
	SackdSpeaks func() bool
	StartSackd  func(context.Context) error
	// Socket is where slurmd gives credentials, empty while it is not in service. Crowded says that it serves others first.
	Socket  func() string
	Crowded func() bool
	// Reach succeeds when slurmctld can be reached.
	Reach func(context.Context) error
	// Spread is within which time all nodes together ask.
	Spread func() time.Duration
	Log    func(level slog.Level, text string, attrs ...slog.Attr)
}

// Node is the node that slurmd's pod is. Of other roles it is nil, and methods that say so take that.
type Node struct {
	Options
	subtree *cgroups.Subtree
	gres    podsize.Gres
	found   Found
	// containers says whether jobs' containers can be made, and is nil where there are none.
	containers *containers.Status
	store      containers.Store

	spool         *spool.Dir
	record        *record.Record
	requeuer      *jobs.Requeuer
	stale         *jobs.Stale
	relaunches    *jobs.Relaunches
	userFiles     *userfiles.Files
	usage         *usage.Usage // nil where there is nothing to read
	drains        *drains.Drains
	machine       *machine.Machine
	hang          *hang.Check  // nil where Slurm's commands need no slurmd
	watcher       *watcher     // nil before Start
	holds         *holds.Holds // nil where the node holds for no pods
	mismatchCheck *mismatchCheck

	stepEnds bell.Bell
	// spoolMade gets a word when slurmd has made its directories.
	spoolMade chan struct{}
	// current is the status of the state that was published last.
	current atomic.Pointer[Status]
}

// Found has what New has measured and what an earlier container has left. It does not change.
type Found struct {
	// Booted is the container's start, when PID 1 began.
	Booted     time.Time
	Allocation nodesize.Allocation
	// Unstartable is why slurmd cannot be started with what the pod's annotations say, empty for nothing.
	Unstartable string
	// Inherits: an earlier container has left sockets of steps. Fresh: no slurmd has used the spool directory before.
	Inherits, Fresh bool
}

// New hands Slurm its cgroup subtree, and finds out what slurmd will register. It starts nothing that lasts.
func New(o Options) (*Node, error) {
	booted, err := process.StartTime(o.Root, 1)
	if err != nil {
		return nil, err
	}
	n := &Node{Options: o, spoolMade: make(chan struct{}, 1), store: containers.Store{Root: o.Root}}
	n.CgroupOptions.Node, n.CgroupOptions.Orphaned, n.CgroupOptions.Daemons, n.CgroupOptions.Helpers,
		n.CgroupOptions.Log = n.Name, n.orphaned, o.Daemons, o.Helpers, o.Log
	// First, because it decides in which cgroup namespace the limits are read.
	if n.subtree, err = cgroups.Open(cgroup.NewFS(o.Root), n.CgroupOptions); err != nil {
		return nil, err
	}
	if err := n.measure(); err != nil {
		return nil, err
	}
	n.subtree.LogDelegation()
	if n.containers != nil {
		level := slog.LevelInfo
		if !n.containers.Ready() {
			level = slog.LevelError
		}
		n.Log(level, "jobs' containers "+n.containers.String())
	}
	for _, note := range n.gres.Notes {
		n.Log(slog.LevelWarn, note)
	}
	for _, d := range n.found.Allocation.Resources.Disagreements {
		n.Log(slog.LevelWarn, d)
	}
	n.found.Booted = booted
	n.assemble()
	return n, nil
}

// measure finds out what slurmd will register.
func (n *Node) measure() (err error) {
	if n.gres, err = podsize.FindGres(n.Root, n.GresChoice); err != nil {
		return &exitcode.Fault{Code: exitcode.Config, Err: err}
	}
	n.SizeOptions.Gres = n.gres.Gres.String()
	n.found.Allocation, err = podsize.Measure(n.subtree.Machine, n.SizeOptions)
	n.containers = containers.Probe(context.Background(), n.Containers)
	n.found.Allocation.Traits = n.completed(n.found.Allocation.Traits)
	n.SizeOptions.Disk = n.found.Allocation.Resources.Disk
	if bad, is := errors.AsType[nodesize.PodInfoError](err); is {
		n.found.Unstartable = bad.Error()
	} else if err != nil {
		return &exitcode.Fault{Code: exitcode.Config, Err: err}
	}
	if limits, err := n.subtree.Machine.Limits(); err == nil {
		n.SizeOptions.AtStart = &limits
	}
	return nil
}

// completed are a pod's features, topology and weight with the feature of a node that can make jobs' containers.
func (n *Node) completed(pod nodesize.Traits) nodesize.Traits {
	if !n.containers.Ready() {
		return pod
	}
	return pod.On(nodesize.Traits{Features: nodesize.Trait{Value: containers.Feature, Source: "slurmlet-container probe"}})
}

// assemble makes the parts.
func (n *Node) assemble() {
	n.spool = spool.New(filepath.Join(n.Root, n.SizeOptions.SpoolDir), n.Name)
	_, inherited := n.spool.Sockets()
	isNew := n.spool.IsNew()
	n.found.Inherits = len(inherited) > 0
	n.found.Fresh = isNew && !n.Elastic // the jobs of an elastic node are looked for later (jobs.Stale)

	n.drains = &drains.Drains{Node: n.Name, Elastic: n.Elastic, Slurm: n.Slurm, Make: n.Changes.Make}
	base := jobs.Node{Name: n.Name, Slurm: n.Slurm, Spool: n.spool, Log: n.Log}
	holders := &jobs.Holders{Node: base, SackdSpeaks: n.SackdSpeaks}
	n.requeuer = &jobs.Requeuer{Holders: holders, Signal: n.JobSignal, EndTasks: n.subtree.EndTasks}
	n.stale = &jobs.Stale{
		Holders: holders, Orphans: &jobs.Orphans{Node: &base, Do: n.CgroupOptions.DeadSteps, Ended: n.stepEnded},
		Booted: n.found.Booted, Inherited: inherited, FirstHere: isNew, Drains: n.drains, Elastic: n.Elastic,
	}
	n.relaunches = &jobs.Relaunches{Node: &base, Resume: n.resumeRecord}
	n.relaunches.Load()
	n.record = &record.Record{
		Holders: holders, Root: n.Root, Main: n.Main, Recount: n.Changes.Recount,
		Gres: n.gres.Gres, NewExtra: n.NewExtra,
	}
	n.userFiles = userfiles.New(userfiles.Options{
		Node: n.Name, Root: n.Root, Places: n.Places, Booted: n.found.Booted, Spool: n.spool,
		SpoolDir: n.SizeOptions.SpoolDir,
		Limit:    n.SizeOptions.StorageLimit, Leftovers: n.Leftovers, Slurm: n.Slurm, State: n.State, Drains: n.drains, Log: n.Log,
	})
	n.usage = usage.New(usage.Options{
		Machine: n.subtree.Machine, Delegation: n.subtree.Delegation.Delegation, MostJobs: n.JobMetrics, Root: n.Root, GPUs: n.gres.GPUs,
		WriteStatus: n.WriteStatus, Report: func(err error) { n.Log(slog.LevelError, err.Error()) },
	})
	n.machine = machine.New(machine.Options{
		Name: n.Machine, Drains: n.drains, State: n.State, Published: n.Published, Look: n.look, Log: n.Log,
	})
	n.mismatchCheck = &mismatchCheck{slurm: n.Slurm, spread: n.Spread, learned: n.stale.Learn, log: n.Log}
	if n.HasKeys {
		n.hang = hang.New(hang.Options{
			Socket: n.Socket, Done: n.Done, Running: n.Main, Reach: n.Reach, Crowded: n.Crowded, Hangs: n.hangs,
		})
	}
}

// hangs reports a slurmd that has not answered for so long.
func (n *Node) hangs(pid int, limit time.Duration) {
	n.Log(slog.LevelError, "slurmd hangs: it takes connections on its socket and does not answer them",
		slog.String("socket", sack.Path), slog.Duration("for", limit))
	n.Post(supervisor.MainHung{PID: pid})
}

// orphaned takes a step that has lost its slurmstepd.
func (n *Node) orphaned(step cgroup.StepOrphaned) { n.stale.Orphans.End(step) }

// Found returns what New has found out.
func (n *Node) Found() Found { return n.found }

// Relaunched says whether an earlier agent has left jobs whose launch slurmd has refused. It takes a nil Node.
func (n *Node) Relaunched() bool { return n != nil && n.relaunches.Any() }

// WatchCgroups looks after the cgroups of jobs from now on.
func (n *Node) WatchCgroups() { n.subtree.Watch() }

// Start watches the pod until its end.
func (n *Node) Start(alive context.Context) {
	n.watcher = newWatcher(n, watch.Options{})
	go n.watcher.watchPod()
	go n.userFiles.Run(alive)
	n.holds.Start(alive)
}

// OpenHolds has jobs that stand for Kubernetes' pods keep the node until these are gone, before Start. runDir is
// SLURMLET_RUN_DIR.
func (n *Node) OpenHolds(runDir string, c holds.Controller) (err error) {
	n.holds, err = holds.Open(holds.Options{
		Node: n.Name, RunDir: runDir, SpoolDir: n.spool.Path(), Controller: c, Drains: n.drains,
		Config: n.Slurm.Config, States: n.Slurm.States, Log: n.Log,
	})
	return err
}

// Usage is what the pod's processes use, nil where that cannot be read. It takes a nil Node.
func (n *Node) Usage() *usage.Usage {
	if n == nil {
		return nil
	}
	return n.usage
}

// Without are the controllers by which the node's container can hold no job. It takes a nil Node.
func (n *Node) Without() []string {
	if n == nil {
		return nil
	}
	return n.subtree.Without()
}

// WriteGres writes gres.conf's part. It takes a nil Node.
func (n *Node) WriteGres(path string) error {
	if n == nil {
		return podsize.Gres{}.Write(path)
	}
	return n.gres.Write(path)
}

// Take takes what Kubernetes knows of the pod. It takes a nil Node.
func (n *Node) Take(self wire.Self) {
	if n != nil {
		n.machine.Take(self)
	}
}

// FollowKubernetes drains the node, and lifts that, as Kubernetes wants it. It takes a nil Node.
func (n *Node) FollowKubernetes(ctx context.Context) {
	if n != nil {
		n.machine.Run(ctx)
	}
}

// look has the pod measured anew.
func (n *Node) look() {
	if n.watcher != nil {
		n.watcher.Do(n.watcher.Look)
	}
}
