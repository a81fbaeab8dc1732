package slurmctld

import (
	"context"
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// Settings are those of the agent's settings that only slurmctld's pod has.
type Settings struct {
	// ConfSources are directories, ConfDefaults says whether what they leave out is filled in.
	ConfSources  []string
	ConfDefaults bool
	// ElasticSets is a directory with a file for each elastic set of nodes, empty for none.
	ElasticSets string
	// Accounts is a file of accounts, QOS, users and limits for slurmdbd, empty for none.
	Accounts  string
	Preflight reconfig.Preflight
	StateDir  string
	// ClusterInterval is the least time between two collections of what the cluster does; 0: none.
	ClusterInterval time.Duration
	// ReportInterval is the time between two looks at the nodes for slurmlet's controller; 0: it gets none. GonePods
	// says whether the records of pods that are gone are deleted.
	ReportInterval time.Duration
	GonePods       bool
	// EndLeavers says whether the jobs of those who have left are ended.
	EndLeavers bool
	// MetricsUsers is how many users and accounts have metrics of their own.
	MetricsUsers int
}

// Options are a Pod's surroundings: what the rest of the agent gives it.
type Options struct {
	Settings
	// Root is where the machine's file system begins. GresConf is where slurmctld's part of gres.conf goes.
	Root, RunDir, GresConf string
	SlurmUser              string
	// UID and GID are slurmctld's user.
	UID, GID int
	// Began is when the agent was started, by the container's clock.
	Began time.Time
	// Upgrade is leave for slurmctld to convert what an older version has saved.
	Upgrade bool
	// HasController says whether slurmlet's controller sends the cluster's pods (SLURMLET_PEERS).
	HasController bool
	// Client asks slurmctld, by Slurm's commands.
	Client *slurm.Questions
	Slurm  slurm.Scontrol
	Table  *process.Table
	// CopyKeys brings slurmctld's copy of auth/slurm's keys up to date.
	CopyKeys func() error
	// FlushOutput returns when all that slurmctld has written was heard.
	FlushOutput func()
	// Life returns what the agent has published last. Published returns what is closed when that may have changed.
	Life      func() Life
	Published func() <-chan struct{}
	// Post hands an event to the agent's loop.
	Post func(lifecycle.Event)
	// SetsChanged is called when there are other elastic nodes than before.
	SetsChanged func()
	// Alive ends with the agent, and Done is closed when it no longer serves.
	Alive context.Context
	Done  <-chan struct{}
	Log   func(slog.Level, string, ...slog.Attr)
}

// Life is what the agent knows of slurmctld.
type Life struct {
	Phase supervisor.Phase
	// PID is the main process's, 0 for none. Restarts counts the starts after the first.
	PID, Restarts int
	// Started says whether the container has been Ready once.
	Started bool
	// Conf is the hash of the configuration in place, empty for none.
	Conf string
}

// serving returns the process id of a slurmctld that serves, 0 for none, and how often it was started again.
func (o Options) serving() (pid, restarts int) {
	l := o.Life()
	if l.Phase != supervisor.Ready {
		return 0, l.Restarts
	}
	return l.PID, l.Restarts
}
