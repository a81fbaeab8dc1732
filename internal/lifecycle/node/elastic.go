package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// slurmctld starts and ends an elastic node by its power saving. The node's record has the flag CLOUD, and
// was there before the pod. The agent never deletes such a record: slurmd would make it anew without CLOUD,
// and power saving would know nothing of it.

// 26.05 takes the mark of no slurmd that registers for a record with CLOUD (record.go), and to ask for the start
// of each of 10,000 slurmds costs slurmctld 10,000 answers about all nodes. The record's flags are enough.

// noteElastic: a node that slurmctld has waited for, and that is up, has registered.
func (l machine) noteElastic(n *slurm.Node) machine {
	switch {
	case !l.Elastic || n == nil:
	case n.Is("POWERING_UP"):
		l.awaited = true
	case (l.awaited || l.wasUp) && isUp(n):
		l.Seen = true
	}
	return l
}

// isUp: slurmctld takes the node for one that runs.
func isUp(n *slurm.Node) bool { return n.Responding() && !n.Off() && !n.Is("POWERING_UP") }

// confirmElastic compares the record with the pod. Nobody puts right a record that gives jobs more than there
// is but who made it: the agent drains the node, and says so.
func (l machine) confirmElastic(n *slurm.Node) (machine, []any) {
	wrong := l.wrong(n)
	switch {
	case n == nil: // a slurmd that registered again would make one without CLOUD
		return l.again("slurmctld has no record of this elastic node")
	case wrong != "" && !n.Drained() && !n.Off():
		l = l.keepOut(wrong)
		l.Reason = wrong + "; draining it"
		return l.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.ByAgent + wrong})
	case wrong != "":
		return l.keepOut(wrong).again(wrong)
	case !l.registered() && isUp(n):
		l.wasUp, l.Reason = true, "slurmd is given a moment to register: the record is "+strings.Join(n.State, "+")
		return l.wait(registerTime)
	case l.mustMend(n):
		return l.mend()
	case l.registered() && !n.Is("POWER_DOWN") && !n.Off() && (Own(n) && !reasons.OfSet(n.Reason) || Outlived(n)):
		return l.attempt(supervisor.Resuming, Change{Verb: ResumeNode})
	case !l.registered() || !n.Responding() || n.Off():
		return l.again("slurmctld has not seen this slurmd yet: the record is " + strings.Join(n.State, "+"))
	}
	l.Unlike = l.unlike(n)
	return l.describe(n)
}

// keepOut: the node serves nobody new while its record is wrong.
func (l machine) keepOut(wrong string) machine {
	l.Activity, l.Unlike = supervisor.Leaving, wrong
	if l.Phase.Serving() {
		l.Phase = supervisor.Resizing
	}
	return l
}

// wrong says why jobs must not come by this record, empty for no reason.
func (l machine) wrong(n *slurm.Node) string {
	switch {
	case n == nil:
		return ""
	case !n.Elastic():
		return "the record has no CLOUD: slurmctld cannot suspend the node, and slurmd has made it"
	case l.Size.Lacks(n) != "":
		return "the record of the elastic node has more than the pod: " + l.Size.Lacks(n)
	case refusedGres(n):
		return fmt.Sprintf(
			"slurmctld has refused what slurmd registered: %s: the cluster's gres.conf must say \"Include %s\"", n.Reason, l.GresConf)
	case n.Invalid():
		return "slurmctld has refused what slurmd registered: " + n.Reason
	}
	return ""
}

// unlike says in what the record is another one than the pod would have made, though jobs can run. slurmctld's
// agent may not know the pod's disk.
func (l machine) unlike(n *slurm.Node) string {
	m := *n
	m.TmpDisk = max(m.TmpDisk, l.Size.TmpDisk)
	var all []string
	if diff := l.Size.Diff(&m); diff != "" {
		all = append(all, diff)
	}
	for _, field := range l.Traits.Update(n) {
		if !isTopology(field) && !strings.HasPrefix(field, "activefeatures=") {
			all = append(all, "the pod has "+field)
		}
	}
	return strings.Join(all, ", ")
}

func isTopology(field string) bool { return strings.HasPrefix(field, "topology=") }

// updates are the fields of the record that the agent brings up to date. An elastic record has its features and
// weight for all pods of that name. Only its place in the network is the present pod's.
func (l machine) updates(n *slurm.Node) []string {
	fields := l.Traits.Update(n)
	if l.Elastic {
		fields = slices.DeleteFunc(fields, func(f string) bool { return !isTopology(f) })
	}
	return fields
}

// Outlived: slurmctld has refused an earlier slurmd's size, and its drain has stayed.
func Outlived(n *slurm.Node) bool {
	return n.Drained() && !n.Invalid() && reasons.Of(n.Reason) == reasons.Registration
}

// suspendTime is what slurmctld has to suspend an idle node: it looks for such nodes once a second.
const suspendTime = time.Second

// actOnElastic takes slurmctld's word on an elastic node's record on the way down. The agent drains the node
// and has slurmctld suspend it as soon as no job holds it, and leaves when it is suspended.
func (l machine) actOnElastic(e Answered) (machine, []any) {
	n := e.Node
	powered := n.Is("POWER_DOWN") && n.Drained()
	free := n.Off() || powered && !n.Busy()
	switch {
	case !l.Seen && l.Tries < unseenTries && n.Is("POWERING_UP", "POWERED_DOWN"):
		return l.again("slurmctld has not seen this slurmd yet, which would make the node one that is up")
	case n.Is("POWERING_UP") && e.Steps == 0:
		// Jobs wait for a slurmd that is younger than this one, and the next pod's is.
		return l.unlisted().end("")
	case free && l.Stage < deadlines.Leave && e.Steps > 0:
		l.Activity, l.Reason, l.running = supervisor.Finishing, "the steps of jobs that slurmctld has ended are ending", e.Steps
		return l.wait(CountEvery)
	case n.Off() && l.Stage < deadlines.Leave && n.Is("COMPLETING"):
		l.Activity, l.running = supervisor.Finishing, 0
		return l.again("its jobs are completing")
	case n.Off():
		return l.unlisted().end("")
	case !powered && (l.pace.made[PowerDownNode] == 0 || !l.actionDue() || !n.Busy()):
		return l.powerDown(n, e.Steps)
	case free:
		return l.again("slurmctld is about to suspend the node")
	}
	return l.awaitJobs(e)
}

// powerDown keeps new jobs away, and has slurmctld suspend the node after its jobs. An admin's reason stays.
func (l machine) powerDown(n *slurm.Node, steps int) (machine, []any) {
	c := Change{Verb: PowerDownNode, Reason: reasons.Terminating}
	if Foreign(n) {
		c.Reason = ""
	}
	l.running = steps
	return l.attempt(supervisor.Draining, c)
}

// poweredDown: slurmctld has taken the request. It suspends an idle node within a moment.
func (l machine) poweredDown() (machine, []any) {
	if l.running > 0 {
		return l.lookAtRecord()
	}
	l.Tries = 4 // the pauses go on from there
	l.Reason = "slurmctld is about to suspend the node"
	return l.wait(suspendTime)
}

// lastResort is how jobs are taken off the node when their time is over.
func (l machine) lastResort(n *slurm.Node) (supervisor.Activity, Change) {
	if l.Elastic && n.Elastic() {
		return supervisor.PoweringOff, Change{Verb: PowerOffNode, Reason: reasons.Terminating}
	}
	return supervisor.Failing, Change{Verb: FailNode, Reason: reasons.Terminating}
}

// mayRemain is what slurmctld may still have when the node's end could not be reported to it.
func (l machine) mayRemain() string {
	if l.Elastic {
		return "slurmctld may still count on the node"
	}
	return "the node record may still be there"
}
