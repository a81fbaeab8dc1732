package conf

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

// Event is something that has happened to the configuration, or to slurmctld.
type Event any

type (
	// StartDue: slurmctld is about to be started, and needs a set in its place.
	StartDue struct{}
	// Ended: slurmctld has ended before it was Ready (State.HasOther).
	Ended struct{ What string }
	// HandedOver: another slurmctld has taken the main one's place.
	HandedOver struct{}
	// Served: slurmctld is Ready, for the first time in this container, or again.
	Served struct{ First bool }
	// Checked: a set was looked at. It lies ready in the directory Staged, unless
	// Err says what is wrong with it; Changes is what it changes. Anew: some of it counts
	// for a slurmctld that starts only.
	Checked struct {
		Number  int
		Staged  string
		Changes []string
		Anew    bool
		Err     error
	}
	// LaunchesOver: slurmctld has sent the nodes what it had to, or was waited for long
	// enough; Err says what keeps the set from being used after all.
	LaunchesOver struct {
		Number int
		Err    error
	}
	PlaceEnded struct {
		Number int
		Err    error
	}
	ReconfigureEnded struct {
		Number int
		Err    error
	}
	// NodesAsked: Took nodes have another slurmd since the reconfigure; Missed have
	// answered slurmctld with the one that they had, of the Unheard it has heard nothing yet.
	// Canary: the one whose slurmd was to be restarted is among the first. To ask took Cost.
	NodesAsked struct {
		Number          int
		Took            int
		Missed, Unheard []string
		Canary          bool
		Cost            time.Duration
		Err             error
	}
	ReloadTimerFired struct{ Number int }
)

// Action is something to do about the configuration.
type Action any

type (
	// Check looks at a set for the slurmctld that runs, and stages it.
	Check struct {
		Number int
		Set    *confset.Set
	}
	// CheckFirst does so before slurmctld runs; good is nil where no set was good before.
	CheckFirst struct {
		Number    int
		Set, Good *confset.Set
	}
	// AwaitLaunches waits until slurmctld has sent the nodes what it has to, no longer
	// than limit.
	AwaitLaunches struct {
		Number int
		Limit  time.Duration
	}
	// Place makes a set the live one; staged is empty for one that does not lie ready.
	Place struct {
		Number int
		Set    *confset.Set
		Staged string
	}
	// Reconfigure does as place, and has slurmctld and the nodes read it.
	Reconfigure struct {
		Number int
		Set    *confset.Set
		Staged string
	}
	// AskNodes asks after a while which nodes have reconfigured. Before, it has the
	// slurmds of some restarted.
	AskNodes struct {
		Number  int
		After   time.Duration
		Restart []string
	}
	// Keep makes the live set, which is the last good one, that on which the next container can fall back.
	Keep      struct{}
	ArmReload struct {
		Number int
		After  time.Duration
	}
)

// These actions are orders to the container's lifecycle.
type (
	// Launch: the set is in place, and slurmctld can be started.
	Launch struct{}
	// End: slurmctld hangs, and is to be ended.
	End struct{ Why string }
	// GiveUp: there is nothing to start slurmctld with, and the container ends with Code.
	GiveUp struct {
		Why  string
		Code int
	}
)
