package slurmd

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/containers"
	"github.com/slurmlet/slurmlet/internal/slurmd/holds"
	"github.com/slurmlet/slurmlet/internal/slurmd/podsize"
	"github.com/slurmlet/slurmlet/internal/slurmd/userfiles"
)

// Status is the node's size, where it comes from, and how it is enforced.
type Status struct {
	Name   string             `json:"name"`
	Conf   string             `json:"conf"`
	Size   nodesize.Size      `json:"shape"`
	Limits nodesize.Resources `json:"limits"`
	Traits nodesize.Traits    `json:"traits"`
	// Grace is the time to end that others than SLURMLET_GRACE_PERIOD give the pod.
	Grace  nodesize.Grace      `json:"granted"`
	Cgroup *cgroups.Delegation `json:"cgroup"`
	Gres   podsize.Gres        `json:"gres"`
	// Fit is nil before the cluster's configuration was asked for.
	Fit *MismatchStatus `json:"fit,omitempty"`
	// Fault is why the last change of the pod could not be followed, Refusal why
	// slurmctld did not take the traits.
	Fault string `json:"fault,omitempty"`
	// RecordDiffers says in what an elastic node's record differs from the pod. Elastic says that the node is one.
	RecordDiffers string `json:"recordDiffers,omitempty"`
	Elastic       bool   `json:"elastic,omitempty"`
	Refusal       string `json:"refusal,omitempty"`
	// Steps is what is done in the cgroups of jobs.
	Steps *cgroups.StepsStatus `json:"steps,omitempty"`
	// Strays is nil where processes that Slurm did not start die no sooner than jobs.
	Strays *cgroups.StraysStatus `json:"strays,omitempty"`
	// Containers is nil where jobs have none.
	Containers *containers.Status `json:"containers,omitempty"`
	// Files is nil before users' files were looked at.
	Files *userfiles.Status `json:"files,omitempty"`
	// PodHolds are those for jobs of Kubernetes' pods, nil where the node holds for none.
	PodHolds *holds.Status `json:"holds,omitempty"`
}

// Publish takes the agent's next state, and is the node's part of its status. It takes a nil Node.
func (n *Node) Publish(next lifecycle.State) *Status {
	if n == nil {
		return nil
	}
	s := &Status{
		Name: n.Name, Conf: next.Size.Conf() + next.Traits.Conf(), Size: next.Size, Limits: next.Resources,
		Traits: next.Traits, Grace: next.Grace.Sooner(next.Deadline), Cgroup: &n.subtree.Delegation, Gres: n.gres,
		Fault: next.Fault, Refusal: next.Refusal,
		RecordDiffers: next.RecordDiffers, Elastic: next.Elastic, Containers: n.containers,
	}
	n.current.Store(s)
	return s
}

// Complete adds to a published status what changes by itself.
func (n *Node) Complete(s Status) *Status {
	s.Fit = n.mismatchCheck.last.Load()
	s.Steps, s.Strays = n.subtree.DescribeSteps(), n.subtree.DescribeStrays()
	s.Steps.Dead = n.stale.Orphans.Count.Load()
	s.Files, s.PodHolds = n.userFiles.Status(), n.holds.Status()
	if n.containers != nil {
		with := *n.containers
		with.Usage = n.store.Look()
		s.Containers = &with
	}
	return &s
}

// mib is bytes of a MiB.
const mib = 1 << 20

// Rows are for people.
func (n *Status) Rows(row func(name, format string, args ...any)) {
	row("Node", "%s %s", n.Name, n.Conf)
	limit := func(name, value, source string) {
		if source == "" {
			value, source = "no limit", "none found"
		}
		row(name, "%s (%s)", value, source)
	}
	limit("CPU quota", fmt.Sprintf("%g CPUs", n.Limits.Quota.Value), n.Limits.Quota.Source)
	limit("CPU set", n.Limits.CPUSet.Value.String(), n.Limits.CPUSet.Source)
	limit("Memory", fmt.Sprintf("%.1f MiB", float64(n.Limits.Memory.Value)/mib), n.Limits.Memory.Source)
	limit("Swap", fmt.Sprintf("%.1f MiB, not counted", float64(n.Limits.Swap.Value)/mib), n.Limits.Swap.Source)
	limit("Disk", fmt.Sprintf("%d MiB", n.Limits.Disk.Value/mib), n.Limits.Disk.Source)
	row("Machine", "CPUs %s, %d MiB", n.Limits.Online, n.Limits.MemTotal/mib)
	if len(n.Limits.CPUTopology.Packages) > 0 {
		row("Topology", "%s", n.Limits.CPUTopology)
	}
	for _, d := range n.Limits.Disagreements {
		row("Note", "%s", d)
	}
	traitRows(n.Traits, row)
	graceRows(n.Grace, row)
	row("Cgroup", "%s", n.Cgroup)
	gresRows(n.Gres, row)
	if n.Fit != nil && n.Fit.Devices != "" {
		row("Devices", "%s", n.Fit.Devices)
	}
	if n.Fault != "" {
		row("Fault", "cannot follow the pod's change: %s", n.Fault)
	}
	if n.Refusal != "" {
		row("Fault", "slurmctld does not take what the pod's annotations say: %s", n.Refusal)
	}
	if n.RecordDiffers != "" {
		row("Fault", "the record of this elastic node differs from the pod: %s", n.RecordDiffers)
	}
	row("Steps", "%s", n.Steps)
	if n.Strays != nil {
		row("Other processes", "%s", n.Strays)
	}
	if n.Containers != nil {
		row("Containers", "%s", n.Containers)
		if n.Containers.Ready() && n.Containers.Usage != nil {
			row("Containers", "%s", n.Containers.Usage)
		}
	}
	if n.Files != nil {
		n.Files.Rows(row)
	}
	if n.PodHolds != nil {
		n.PodHolds.Rows(row)
	}
	if n.Fit == nil {
		return
	}
	for _, m := range n.Fit.Mismatches {
		row("Misfit", "%s", m)
	}
	if n.Fit.Error != "" {
		row("Misfits", "not known: %s", n.Fit.Error)
	}
}

func traitRows(t nodesize.Traits, row func(name, format string, args ...any)) {
	for _, one := range []struct {
		name string
		nodesize.Trait
	}{{"Features", t.Features}, {"Topology", t.Topology}, {"Weight", t.Weight}} {
		if one.Given() {
			row(one.name, "%s (%s)", one.Value, one.Source)
		}
	}
}

func gresRows(g podsize.Gres, row func(name, format string, args ...any)) {
	for _, line := range g.Lines {
		row("Device", "%s", line)
	}
	for _, note := range g.Notes {
		row("Note", "%s", note)
	}
}

// graceRows writes what is granted now, before SIGTERM.
func graceRows(g nodesize.Grace, row func(name, format string, args ...any)) {
	if g.GracePeriod.Bounded() {
		row("Grace period", "%s (%s)", g.GracePeriod.Value, g.GracePeriod.Source)
	}
	if g.Deadline.Bounded() {
		row("Deadline", "%s (%s)", g.Deadline.Value.Format(time.RFC3339), g.Deadline.Source)
	}
}
