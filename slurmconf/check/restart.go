package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// Restart is a change that a reconfigure does not make, or must not.
type Restart struct {
	// File is the key's, slurm.conf where it is empty.
	File     slurmconf.Kind
	Key      string
	Old, New string // Slurm's default where nothing is set, empty if that depends on the build
	// Of is whose processes must be ended and started.
	Of Processes
	// Says is why, in the words of slurm.conf(5), or what was seen.
	Says string
	// LosesJobs: a reconfigure, and a restart alone, end jobs or forget them.
	LosesJobs bool
	// Waits: the change harms nobody until the restart: slurmd goes on as before, or refuses
	// to reconfigure.
	Waits bool
	// At is the place of the new value.
	At slurmconf.Position
}

// Processes is which of a cluster's.
type Processes string

// Whose processes a change needs restarted.
const (
	OfSlurmctld Processes = "slurmctld"
	OfNodes     Processes = "slurmd"
	OfAll       Processes = "everything"
)

// Finding is the restart in one line: an Error if jobs would be lost, else a
// Warning.
func (r Restart) Finding() slurmconf.Finding {
	severity := slurmconf.Warning
	if r.LosesJobs {
		severity = slurmconf.Error
	}
	what := fmt.Sprintf("%s was %q and is %q, which needs a restart of %s: %s", r.Key, r.Old, r.New, r.Of, r.Says)
	return slurmconf.Finding{Position: r.At, Severity: severity, Rule: "restart", What: what}
}

const (
	listening = "“Changes to TCP listening settings will require a daemon restart.” (slurm.conf(5))"
	terminate = "“All Slurm daemons and commands must be terminated prior to changing the value of AuthType and " +
		"later restarted.” (slurm.conf(5)), and running steps cannot complete"
	switching = "“records of all jobs in any state may be lost” (slurm.conf(5)) when jobs run at that time"
	naming    = "slurmctld does not start on the state of another cluster (StateSaveLocation's clustername)"
	scoping   = "slurmd puts itself into another cgroup as it starts, and one of 24.11 in a container refuses to " +
		"reconfigure from there (“systemd scope for slurmstepd could not be set”)"
	moving = "slurmctld begins without jobs where the state was not moved (slurm.conf(5), RELOCATING CONTROLLERS)"
)

var restarts = []Restart{
	{Key: "AuthType", Of: OfAll, Says: terminate, LosesJobs: true},
	{Key: "ClusterName", Of: OfAll, Says: naming, LosesJobs: true},
	{File: slurmconf.CgroupConf, Key: "IgnoreSystemd", Of: OfNodes, Says: scoping, Waits: true},
	{Key: "SlurmctldPort", Of: OfAll, Says: listening},
	{Key: "SlurmdPort", Of: OfNodes, Says: listening},
	{Key: "StateSaveLocation", Of: OfSlurmctld, Says: moving, LosesJobs: true},
	{Key: "SwitchType", Of: OfAll, Says: switching, LosesJobs: true},
}

// Restarts is what a reconfigure does not change from one configuration to the
// next. Everything else it does: since 23.11 slurmctld and slurmd start new
// processes for it.
func Restarts(from, to *slurmconf.Set) []Restart {
	var all []Restart
	for _, r := range restarts {
		file := cmp.Or(r.File, slurmconf.SlurmConf)
		r.Old, _ = from.Conf(file).Value(r.Key)
		r.New, r.At = to.Conf(file).Value(r.Key)
		if r.Key == "IgnoreSystemd" {
			r.Old, r.New = yesOrNo(r.Old), yesOrNo(r.New)
		}
		if r.Old == r.New {
			continue
		}
		if r.At.File == "" {
			r.At.File = string(file)
		}
		all = append(all, r)
	}
	return all
}

// yesOrNo is a boolean in one of its spellings, no where nothing is set.
func yesOrNo(value string) string {
	if slices.Contains([]string{"yes", "up", "true", "1"}, strings.ToLower(value)) {
		return "yes"
	}
	return "no"
}
