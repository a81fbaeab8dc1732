package clusterview

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// View is what slurmctld has said. Nobody changes a View after it was made.
type View struct {
	// Cluster is the cluster's name, Version Slurm's: "26.05.5".
	Cluster, Version string
	Nodes            []slurm.Node
	Partitions       []Partition
	// Jobs are those that squeue(1) knows: the jobs that have not ended, and those that ended less
	// than MinJobAge (slurm.conf(5)) ago.
	Jobs         Jobs
	Reservations []Reservation
	Licenses     []License
	// Scheduler is nil as long as sdiag(1) has said nothing.
	Scheduler *Scheduler
	// Shares are nil where the cluster has no slurmdbd, and where nobody wants to know them.
	Shares []Share
	// Suspended are the nodes that suspended jobs hold: their records may be IDLE. Only a Collector that was
	// set to ask for FamilySuspended knows them.
	Suspended map[string]bool
	// Readings has one Reading for each family that was asked for.
	Readings map[Family]Reading
}

// Family is a part of a View that one question brings.
type Family string

// The families of a View.
const (
	FamilyNodes        Family = "nodes"
	FamilyJobs         Family = "jobs"
	FamilyPartitions   Family = "partitions"
	FamilyReservations Family = "reservations"
	FamilyLicenses     Family = "licenses"
	FamilyScheduler    Family = "scheduler"
	FamilyShares       Family = "shares"
	FamilySuspended    Family = "suspended"
)

// Reading says how old a family is.
type Reading struct {
	// At is when slurmctld said the values that the View has; zero for never.
	At time.Time
	// Took is how long the last successful question took.
	Took time.Duration
	// Err is the fault of the last question. The values are older then.
	Err error
}

// Up says whether slurmctld has answered the last question of each family that was asked for.
func (v *View) Up() bool {
	for _, r := range v.Readings {
		if r.Err != nil || r.At.IsZero() {
			return false
		}
	}
	return len(v.Readings) > 0
}

// Partition is one of the cluster, with its size.
type Partition struct {
	Name string
	// State is UP, DOWN, DRAIN or INACTIVE.
	State       string
	Nodes, CPUs int
	Default     bool
}

// Reservation is one that slurmctld has, be it in effect or not.
type Reservation struct {
	Name string
	// State is ACTIVE or INACTIVE.
	State      string
	Start, End slurm.Time
	// Nodes and CPUs count what the reservation reserves.
	Nodes, CPUs int
	NodeList    string
	Flags       []string
}

// License counts one kind of licenses ("scontrol show licenses").
type License struct {
	Name                        string
	Total, Used, Free, Reserved int
}

// Share is one association: an account, or a user in an account (sshare(1)).
type Share struct {
	// User is empty for an account.
	Account, User string
	// Shares are 0 for those of the parent.
	Shares int64
	// FairShare is no number (NaN) for an account under Fair Tree.
	NormShares, NormUsage, EffectiveUsage, FairShare float64
	// RawUsage is in CPU seconds.
	RawUsage float64
}

// Scheduler is what sdiag(1) prints. Counts begin anew with slurmctld, each midnight UTC, and with
// "sdiag --reset", at Since.
type Scheduler struct {
	// At is when slurmctld said it, and Since when the counts began.
	At, Since slurm.Time
	// Threads is how many threads of slurmctld work on requests. Agents are those that send
	// messages to nodes, with AgentThreads, and AgentQueue waits to be sent.
	Threads, Agents, AgentThreads, AgentQueue int64
	// DBDQueue waits to be sent to slurmdbd.
	DBDQueue int64
	// TimeLatency is how long 1,000 calls of gettimeofday(2) take.
	TimeLatency   time.Duration
	SchedulerJobs SchedulerJobs
	Main          MainScheduler
	Backfill      BackfillScheduler
	// RPCs are counts by the type of message.
	RPCs []RPC
	// PendingRPCs are messages to nodes, which wait in slurmctld for their turn.
	PendingRPCs []RPC
}

// SchedulerJobs are sdiag's counts of jobs. Pending and Running are those at StatesAt.
type SchedulerJobs struct {
	Submitted, Started, Completed, Canceled, Failed int64
	Pending, Running                                int64
	StatesAt                                        slurm.Time
}

// MainScheduler is the main scheduler.
type MainScheduler struct {
	Cycles                                   int64
	CycleLast, CycleMax, CycleMean, CycleSum time.Duration
	CyclesPerMinute                          int64
	DepthMean, DepthSum                      int64
	QueueLength                              int64
	MainExits                                MainExits
}

// MainExits are how often the main scheduler ended for each cause.
type MainExits struct {
	EndOfQueue, DefaultQueueDepth, Licenses, MaxJobStart, MaxRPCCount, MaxSchedTime int64
}

// BackfillScheduler is the backfill scheduler.
type BackfillScheduler struct {
	Active bool
	// Jobs and HetJobs are those that backfill has started since slurmctld's start, and LastJobs
	// since Since.
	Jobs, LastJobs, HetJobs                      int64
	Cycles                                       int64
	CycleLast, CycleMax, CycleMean, CycleSum     time.Duration
	LastCycleAt                                  slurm.Time
	DepthLast, DepthLastTry                      int64
	DepthMean, DepthMeanTry                      int64
	DepthSum, DepthSumTry                        int64
	QueueLength, QueueLengthMean, QueueLengthSum int64
	TableSize, TableSizeMean, TableSizeSum       int64
	BackfillExits                                BackfillExits
}

// BackfillExits are how often the backfill scheduler ended for each cause.
type BackfillExits struct {
	EndOfQueue, MaxJobStart, MaxJobTest, MaxTime, NodeSpaceSize, StateChanged int64
}

// RPC are requests of one type.
type RPC struct {
	// Name is a type of message, such as REQUEST_JOB_INFO.
	Name  string
	Count int64
	// Sum is how long slurmctld has worked on them in all.
	Sum time.Duration
}
