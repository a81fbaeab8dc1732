package conf

// Activity is what slurmctld's agent does about the configuration.
type Activity int

// What it does.
const (
	Idle Activity = iota
	Checking
	AwaitingLaunches
	Reconfiguring
	Spreading
	RestartingOne
	Restoring
	BackingOff
)

var activityTexts = [...]string{
	Idle:             "",
	Checking:         "checking the new configuration",
	AwaitingLaunches: "waiting for slurmctld to launch the jobs that it has started",
	Reconfiguring:    "waiting for slurmctld to take the new configuration",
	Spreading:        "waiting for the nodes to take the new configuration",
	RestartingOne:    "having slurmd restarted into the new configuration on one node",
	Restoring:        "putting the last good configuration back",
	BackingOff:       "pausing before the last good configuration is put back once more",
}

func (c Activity) String() string { return activityTexts[c] }
