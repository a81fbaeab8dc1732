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

// noteElastic notes whether slurmctld waits for the node's slurmd, and that it has seen this one: a node that it has waited
// for, and that is up, has registered.
func (m machine) noteElastic(n *slurm.Node) machine {
	switch {
	case !m.Elastic || n == nil:
	case n.Is("POWERING_UP"):
		m.awaited = true
	case (m.awaited || m.wasUp) && isUp(n):
		m.Seen = true
	}
	return m
}

// isUp says whether slurmctld takes the node for one that runs.
func isUp(n *slurm.Node) bool { return n.Responding() && !n.Off() && !n.Is("POWERING_UP") }

// confirmElastic compares the record with the pod. Nobody puts right a record that gives jobs more than there
// is but who made it: the agent drains the node, and says so.
func (m machine) confirmElastic(n *slurm.Node) (machine, []any) {
	fault := m.recordFault(n)
	switch {
	case n == nil: // a slurmd that registered again would make one without CLOUD
		return m.again("slurmctld has no record of this elastic node")
	case fault != "" && !n.Drained() && !n.Off():
		m = m.withRecordFault(fault)
		m.Reason = fault + "; draining it"
		return m.attempt(supervisor.Draining, Change{Verb: DrainNode, Reason: reasons.ByAgent + fault})
	case fault != "":
		return m.withRecordFault(fault).again(fault)
	case !m.registered() && isUp(n):
		m.wasUp, m.Reason = true, "slurmd is given a moment to register: the record is "+strings.Join(n.State, "+")
		return m.wait(registerTime)
	case m.mustMend(n):
		return m.mend()
	case m.registered() && !n.Is("POWER_DOWN") && !n.Off() && (Own(n) && !reasons.OfSet(n.Reason) || HasStaleRefusal(n)):
		return m.attempt(supervisor.Resuming, Change{Verb: ResumeNode})
	case !m.registered() || !n.Responding() || n.Off():
		return m.again("slurmctld has not seen this slurmd yet: the record is " + strings.Join(n.State, "+"))
	}
	m.RecordDiffers = m.recordDiffers(n)
	return m.describe(n)
}

// withRecordFault makes the node not Ready while its record has the fault: no new job may come.
func (m machine) withRecordFault(fault string) machine {
	m.Activity, m.RecordDiffers = supervisor.Leaving, fault
	if m.Phase.Serving() {
		m.Phase = supervisor.Resizing
	}
	return m
}

// recordFault says why jobs must not come by this record, empty for no reason.
func (m machine) recordFault(n *slurm.Node) string {
	switch {
	case n == nil:
		return ""
	case !n.Elastic():
		return "the record has no CLOUD: slurmctld cannot suspend the node, and slurmd has made it"
	case m.Size.Lacks(n) != "":
		return "the record of the elastic node has more than the pod: " + m.Size.Lacks(n)
	case refusedGres(n):
		return fmt.Sprintf(
			"slurmctld has refused what slurmd registered: %s: the cluster's gres.conf must say \"Include %s\"", n.Reason, m.GresConf)
	case n.Invalid():
		return "slurmctld has refused what slurmd registered: " + n.Reason
	}
	return ""
}

// recordDiffers says in what the record differs from the one that the pod would have made, though jobs can run.
// slurmctld's agent, which has made the record, may not know the pod's disk.
func (m machine) recordDiffers(n *slurm.Node) string {
	withDisk := *n
	withDisk.TmpDisk = max(n.TmpDisk, m.Size.TmpDisk)
	var all []string
	if diff := m.Size.Diff(&withDisk); diff != "" {
		all = append(all, diff)
	}
	for _, field := range m.Traits.Update(n) {
		if !isTopology(field) && !strings.HasPrefix(field, "activefeatures=") {
			all = append(all, "the pod has "+field)
		}
	}
	return strings.Join(all, ", ")
}

func isTopology(field string) bool { return strings.HasPrefix(field, "topology=") }

// updates are the fields of the record that the agent brings up to date. An elastic record has its features and
// weight for all pods of that name. Only its place in the network is the present pod's.
func (m machine) updates(n *slurm.Node) []string {
	fields := m.Traits.Update(n)
	if m.Elastic {
		fields = slices.DeleteFunc(fields, func(f string) bool { return !isTopology(f) })
	}
	return fields
}

// HasStaleRefusal says whether slurmctld has refused an earlier slurmd's size, and its drain has stayed.
func HasStaleRefusal(n *slurm.Node) bool {
	return n.Drained() && !n.Invalid() && reasons.Of(n.Reason) == reasons.Registration
}

// suspendTime is what slurmctld has to suspend an idle node: it looks for such nodes once a second.
const suspendTime = time.Second

// actOnElastic takes slurmctld's word on an elastic node's record on the way down. The agent drains the node
// and has slurmctld suspend it as soon as no job holds it, and leaves when it is suspended.
func (m machine) actOnElastic(e Answered) (machine, []any) {
	n := e.Node
	toPowerDown := n.Is("POWER_DOWN") && n.Drained() // slurmctld suspends it when no job is there
	free := n.Off() || toPowerDown && !n.Busy()
	switch {
	case !m.Seen && m.Tries < unseenTries && n.Is("POWERING_UP", "POWERED_DOWN"):
		return m.again("slurmctld has not seen this slurmd yet, which would make the node one that is up")
	case n.Is("POWERING_UP") && e.Steps == 0:
		// Jobs wait for a slurmd that is younger than this one, and the next pod's is.
		return m.unlisted().end("")
	case free && m.Stage < deadlines.Leave && e.Steps > 0:
		m.Activity, m.Reason, m.running = supervisor.Finishing, "the steps of jobs that slurmctld has ended are ending", e.Steps
		return m.wait(CountEvery)
	case n.Off() && m.Stage < deadlines.Leave && n.Is("COMPLETING"):
		m.Activity, m.running = supervisor.Finishing, 0
		return m.again("its jobs are completing")
	case n.Off():
		return m.unlisted().end("")
	case !toPowerDown && (m.pace.made[PowerDownNode] == 0 || !m.actionDue() || !n.Busy()):
		return m.powerDown(n, e.Steps)
	case free:
		return m.again("slurmctld is about to suspend the node")
	}
	return m.awaitJobs(e)
}

// powerDown keeps new jobs away, and has slurmctld suspend the node after its jobs. An admin's reason stays.
func (m machine) powerDown(n *slurm.Node, steps int) (machine, []any) {
	c := Change{Verb: PowerDownNode, Reason: reasons.Terminating}
	if Foreign(n) {
		c.Reason = ""
	}
	m.running = steps
	return m.attempt(supervisor.Draining, c)
}

// poweredDown goes on when slurmctld has taken the request. It suspends an idle node within a moment.
func (m machine) poweredDown() (machine, []any) {
	if m.running > 0 {
		return m.lookAtRecord()
	}
	m.Tries = 4 // the pauses go on from there
	m.Reason = "slurmctld is about to suspend the node"
	return m.wait(suspendTime)
}

// lastResort is how jobs are taken off the node when their time is over.
func (m machine) lastResort(n *slurm.Node) (supervisor.Activity, Change) {
	if m.Elastic && n.Elastic() {
		return supervisor.PoweringOff, Change{Verb: PowerOffNode, Reason: reasons.Terminating}
	}
	return supervisor.Failing, Change{Verb: FailNode, Reason: reasons.Terminating}
}

// mayRemain is what slurmctld may still have when the node's end could not be reported to it.
func (m machine) mayRemain() string {
	if m.Elastic {
		return "slurmctld may still count on the node"
	}
	return "the node record may still be there"
}
