package slurmctld

import (
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/pod/people"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/waitnodes"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods/kept"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/registration"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
)

// Pod is what the agent has in slurmctld's pod alone. A nil Pod is that of another role: its methods do nothing and return nothing.
type Pod struct {
	Options
	// cluster collects what slurmctld says of the cluster, for those who ask. It is nil where
	// SLURMLET_CLUSTER_INTERVAL is 0.
	cluster *clusterview.Collector
	// reloader takes slurm.conf from an edit to live. It is nil before Open.
	reloader *reconfig.Reloader
	// feed announces to the nodes' agents which configuration slurmctld has.
	feed  confsync.Feed
	saved *savedstate.Watcher
	// kept has node records go that stay without a pod.
	kept *kept.Keeper
	// reporter reports nodes to the controller, and nodeRecords keeps node records and pods in step. Both are nil where
	// nobody asks for that.
	reporter    *peers.Reporter
	nodeRecords *gonepods.Reconciler
	// elasticNodes keeps the records of elastic node sets, and waits answers the jobs that wait for such nodes. Both are
	// nil where there are no sets.
	elasticNodes *elastic.Reconciler
	waits        *waitnodes.Server
	// accountKeeper brings slurmdbd into step with SLURMLET_ACCOUNTS, nil without.
	accountKeeper *accounts.Keeper
	// leaverKeeper ends the jobs of those who have left, nil where nobody does.
	leaverKeeper *people.Keeper
	// peers is the stream from slurmlet's controller, nil where there is none.
	peers *peers.Client

	// losses is nil while slurmctld has said of no job that it is lost.
	losses atomic.Pointer[LossStatus]
	// fatal is slurmctld's last fatal line, nil for none.
	fatal atomic.Pointer[Line]
	// heldJobs are the jobs that slurmctld holds because it does not know their user.
	heldJobs heldJobs
}

// New makes what needs no file and asks nobody.
func New(o Options) *Pod {
	p := &Pod{Options: o}
	viewing := o.Slurm
	viewing.Env = slices.Concat(viewing.Env, clusterview.Env)
	if o.ClusterInterval > 0 {
		p.cluster = clusterview.New(clusterview.Options{
			Stream: viewing.Stream, Interval: o.ClusterInterval, Shares: o.MetricsUsers > 0, Timeout: o.Client.Limit, Log: o.Log,
		})
	}
	p.saved = p.newSaved()
	p.kept = p.newKept()
	nodes := clusterview.New(clusterview.Options{
		Stream: viewing.Stream, Interval: elastic.LookInterval,
		Only:    []clusterview.Family{clusterview.FamilyNodes, clusterview.FamilySuspended},
		Timeout: o.Client.Limit, Log: o.Log,
	})
	follows := o.HasController && (o.ReportInterval > 0 || o.GonePods)
	if follows {
		p.reporter = peers.NewReporter()
	}
	if o.ElasticSets != "" {
		p.elasticNodes, p.waits = p.newElastic(nodes, viewing)
		if follows {
			p.reporter.Failing = p.elasticNodes.PodsFailing
		}
	}
	if o.Accounts != "" {
		p.accountKeeper = p.newAccounts()
	}
	if o.EndLeavers {
		p.leaverKeeper = p.newLeavers()
	}
	if follows {
		p.nodeRecords = gonepods.New(gonepods.Options{
			Look: nodes, Slurm: o.Client, Interval: o.ReportInterval, Gone: o.GonePods, Kept: p.kept,
			Reporter: p.reporter, Elastic: p.elasticNodes, Feed: &p.feed,
			Serving: p.isServing, Published: o.Published, Log: o.Log,
		})
	}
	return p
}

func (p *Pod) newSaved() *savedstate.Watcher {
	store := savedstate.NewStore(savedstate.Options{
		UID: p.UID, GID: p.GID, Self: savedstate.Self(p.Began), Upgrade: p.Upgrade, Log: p.Log,
		Held: func(by string) {
			p.Log(slog.LevelWarn,
				"slurmctld is not started: another agent has StateSaveLocation, and this one waits for its end", slog.String("agent", by))
			p.Post(lifecycle.StateHeld{Why: "another agent has StateSaveLocation, and this one waits for its end: " + by})
		},
	})
	return savedstate.NewWatcher(savedstate.WatcherOptions{
		Store: store, Serving: p.serving, Published: p.Published, AskStates: p.Client.States, QuestionLimit: p.Client.Limit,
		Restarted: p.feed.Renew, // the nodes' agents look for jobs that it has forgotten
		Alive:     p.Alive, Done: p.Done,
	})
}

func (p *Pod) newKept() *kept.Keeper {
	asked := p.Slurm
	asked.Sinfo = filepath.Join(filepath.Dir(asked.Path), "sinfo") // nothing else in slurmctld's container asks for one node
	o := kept.Options{Slurm: asked, Serving: p.isServing, QuestionLimit: p.Client.Limit, Done: p.Done, Log: p.Log}
	if p.HasController {
		o.Heard = func() time.Time { return p.peers.Status().Updated }
	}
	return kept.New(o)
}

// isServing says whether slurmctld does its work, also while it reads its configuration.
func (p *Pod) isServing() bool { return p.Life().Phase.Serving() }

// Open finds what slurmctld can be started with: the last good configuration, nil for none, and what the sources hold
// now. It comes before the other methods, but for those that take slurmctld's log.
func (p *Pod) Open(daemon reconfig.Daemon) (good *confset.Set, now conf.Revision) {
	p.elasticNodes.Open()
	p.reloader, good = reconfig.Open(reconfig.Options{
		Sources: p.ConfSources, Delivered: p.reporter.SetConf, RunDir: p.RunDir, StateDir: p.StateDir, Preflight: p.Preflight,
		Defaults: p.ConfDefaults, SlurmUser: p.SlurmUser,
		Elastic: p.setsForConf(), ElasticDir: p.ElasticSets, Programs: p.waits,
		Daemon: daemon, Table: p.Table, Client: p.Client, Feed: &p.feed, Saved: p.saved, CopyKeys: p.CopyKeys,
		Fatal: p.fatalSince, Log: p.Log, HoldAccounts: p.holdAccounts(),
	})
	return good, p.reloader.Read()
}

// Run starts what goes on until the agent ends. The port is served already.
func (p *Pod) Run() {
	if p == nil {
		return
	}
	go p.reloader.Watch(p.Alive, p.Post)
	go p.registrationKeeper().Run()
	go p.kept.Run(p.Alive)
	go p.saved.Run()
	go p.leaverKeeper.Run(p.Alive)
	if p.elasticNodes != nil {
		go p.elasticNodes.Run(p.Alive)
	}
	if p.accountKeeper != nil {
		go p.accountKeeper.Run(p.Alive)
	}
	if p.nodeRecords != nil {
		go p.nodeRecords.Run(p.Alive)
	}
}

// registrationKeeper looks after the registration of the cluster with slurmdbd.
func (p *Pod) registrationKeeper() *registration.Keeper {
	return &registration.Keeper{
		Slurmctld: func() (int, <-chan struct{}) {
			news := p.Published()
			pid, _ := p.serving()
			return pid, news
		},
		Live: p.reloader.LiveDir, Client: p.Client, Reconfigure: p.reloader.ReconfigureAgain, Done: p.Done, Log: p.Log,
	}
}

// Do does an action of a reload in the background. What comes of it is posted.
func (p *Pod) Do(act lifecycle.Action) {
	go func() {
		if e := p.reloader.Do(p.Alive, act); e != nil {
			p.Post(e)
		}
	}()
}

// Starting is called before slurmctld is started.
func (p *Pod) Starting() {
	if p != nil {
		p.waits.Begin()
	}
}

// Stopping is called before slurmctld gets SIGTERM.
func (p *Pod) Stopping(main *process.Process) {
	if p != nil {
		p.saved.Stopping(main)
	}
}

// Ended takes how slurmctld has ended.
func (p *Pod) Ended(main *process.Process, status process.Status) {
	if p != nil {
		p.saved.Ended(main, status)
	}
}
