package supervisor

// Phase is where a container stands in its life.
type Phase string

// The phases. Ready and Reloading serve; the others do not.
const (
	Starting  Phase = "Starting"
	Ready     Phase = "Ready"
	Reloading Phase = "Reloading" // a re-executed daemon has taken over and is being looked at
	Resizing  Phase = "Resizing"  // the pod is of another size than its record, which must be free of jobs to follow
	Stopping  Phase = "Stopping"
	Exited    Phase = "Exited"
)

// Serving says whether the daemon does its work in this phase. A node that is
// Resizing runs its jobs to their end, and their names must resolve meanwhile.
func (p Phase) Serving() bool { return p == Ready || p == Reloading || p == Resizing }

// Activity is what a container is busy with.
type Activity int

// The activities.
const (
	Idle Activity = iota
	AwaitingDescription
	Reaching
	Launching
	Confirming // by a ping, by the node record, or by an answer
	EndingStaleJobs
	Doubting // it serves, but has complained
	Resuming
	Mending
	Describing
	Leaving
	Deleting
	Replacing
	ChoosingConf
	Pausing

	// On the way down.
	AwaitingSessions
	StartingSackd
	LookingAtRecord
	Draining
	Finishing
	Converting // slurmdbd's database, before SIGTERM
	Requeueing
	Failing
	PoweringOff // an elastic node, as Failing
	Ending
)

var activityTexts = [...]string{
	Idle:                "",
	AwaitingDescription: "waiting for a description that can be used",
	Reaching:            "reaching what the daemon needs",
	Launching:           "waiting for the daemon's READY",
	Confirming:          "waiting for the service to be confirmed",
	EndingStaleJobs:     "ending the jobs that have died with an earlier container",
	Doubting:            "asking what the daemon needs",
	Resuming:            "lifting the agent's own drain",
	Mending:             "mending a launch that slurmd has refused",
	Describing:          "bringing the node record's features, topology and weight up to date",
	Leaving:             "waiting for the old node record to be free",
	Deleting:            "deleting the node record",
	Replacing:           "restarting the daemon",
	ChoosingConf:        "finding a configuration to start with",
	Pausing:             "pausing before the next start",
	AwaitingSessions:    "waiting for sessions to end",
	StartingSackd:       "starting sackd, to ask slurmctld without slurmd",
	LookingAtRecord:     "looking at the node record",
	Draining:            "draining the node",
	Finishing:           "waiting for the node's jobs to end",
	Converting:          "waiting for slurmdbd to listen, which it does when its database is converted",
	Requeueing:          "requeueing the node's jobs",
	Failing:             "setting the node DOWN, which takes its jobs off it",
	PoweringOff:         "powering the node off, which takes its jobs off it",
	Ending:              "waiting for the daemon to stop",
}

func (a Activity) String() string { return activityTexts[a] }
