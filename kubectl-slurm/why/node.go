package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// judgeNode says why a node gets no jobs: first what its pod and its machine say, then what slurmctld says.
func (f *Facts) judgeNode() Answer {
	pod := f.Pods[f.Name]
	a := Answer{About: f.aboutNode(pod)}
	suspended := f.Node != nil && f.Node.Is("POWERED_DOWN") && !f.Node.Is("DRAIN")
	if suspended && pod == nil && len(f.elastic()) == 0 {
		a.Causes, a.Fine = []Cause{{
			Kind: "suspended", Sure: Certain, Text: "The node is of an elastic set and has no pod now. It starts when a job needs it.",
		}}, true
		return a
	}
	if pod != nil {
		a.Causes = append(a.Causes, f.podCauses(pod)...)
	}
	if !slices.ContainsFunc(a.Causes, func(c Cause) bool { return c.Sure == Certain }) {
		a.Causes = append(f.elastic(), a.Causes...) // the pod itself says more
	}
	podSays := slices.ContainsFunc(a.Causes, func(c Cause) bool { return c.Sure == Certain })
	if f.Node != nil && (!podSays || reasons.Of(f.Node.Reason) != reasons.Agent) { // the agent's drain is for what the pod says
		a.Causes = append(a.Causes, f.recordCauses(pod)...)
	}
	switch {
	case f.Node == nil && pod == nil:
		a.Causes = append(a.Causes, f.noPod(fmt.Sprintf("Neither Slurm nor Kubernetes knows a node %s.", f.Name))...)
	case pod != nil && pod.Role != "slurmd" && !slices.ContainsFunc(a.Causes, func(c Cause) bool { return c.Sure != Possible }):
		a.Fine = true
	case f.Node == nil && len(a.Causes) == 0:
		a.Causes = append(a.Causes, Cause{
			Kind: "no record", Sure: Likely, Text: "slurmctld has no record of the node: its agent has not registered it yet.",
			Cures: []Cure{do("read what its agent says", "kubectl", "slurm", "logs", f.Name)},
		})
	case !slices.ContainsFunc(a.Causes, func(c Cause) bool { return c.Sure != Possible }) && f.Node.Is("IDLE", "MIXED", "ALLOCATED"):
		a.Fine = true
	}
	return a
}

func (f *Facts) aboutNode(pod *Pod) string {
	text := "Node " + f.Name
	if n := f.Node; n != nil {
		text += " is " + strings.Join(n.State, "+")
		if n.Reason != "" && n.Is("DRAIN", "DOWN", "FAIL") {
			text += fmt.Sprintf(" (%s, by %s since %s)", n.Reason, cmp.Or(n.User, "slurmctld"), at(n.Since.Time()))
		}
	} else if pod == nil || pod.Role == "slurmd" {
		text += " has no record in Slurm"
	} else {
		text = "Pod " + f.Name + " is " + pod.Role
	}
	switch {
	case pod == nil:
		return text + ", and has no pod"
	case pod.Machine == "":
		return text + fmt.Sprintf(", and its pod %s is %s, without a machine", pod.Name, pod.Phase)
	}
	ready := "not Ready"
	if pod.Ready {
		ready = "Ready"
	}
	return text + fmt.Sprintf(", and its pod %s is %s and %s on %s", pod.Name, pod.Phase, ready, pod.Machine)
}

// recordCauses is what slurmctld's record says, where the pod's causes do not explain it.
func (f *Facts) recordCauses(pod *Pod) (causes []Cause) {
	n := f.Node
	gone := pod == nil && n.Is("DOWN", "NOT_RESPONDING") && !n.Is("POWERED_DOWN", "POWERING_UP", "POWERING_DOWN")
	if gone {
		causes = append(causes, f.noPod(fmt.Sprintf("The node's pod is gone, and slurmctld has its record still (%s).", strings.Join(n.State, "+")))...)
	}
	if n.Is("INVALID_REG") {
		why := ""
		if f.Agent != nil && f.Agent.Node != nil {
			why = f.Agent.Node.Refusal
		}
		causes = append(causes, Cause{
			Kind: "registration", Sure: Certain, Text: "slurmctld has refused what slurmd has registered: " + cmp.Or(n.Reason, why, "see the status of its agent") + ".",
			Cures: []Cure{do("see what was measured, and where it is from", "kubectl", "exec", podName(pod, f.Name), "--", "slurmlet", "status")},
		})
		return causes
	}
	if n.Is("DRAIN", "FAIL") || n.Is("DOWN") && !gone {
		causes = append(causes, f.notInService(pod))
	} else if n.Is("NOT_RESPONDING") && !gone && !n.Is("POWERING_UP", "POWER_UP", "POWERED_DOWN", "POWERING_DOWN") {
		causes = append(causes, f.silent(pod))
	}
	if n.Is("RESERVED", "MAINTENANCE") {
		causes = append(causes, f.reservationOf(n.Name))
	}
	if n.Is("POWERING_DOWN") {
		causes = append(causes, Cause{Kind: "ending", Sure: Certain, Text: "Slurm ends the node, because it was idle. Its pod goes, and comes back when a job needs the node."})
	}
	if n.Is("REBOOT_REQUESTED", "REBOOT_ISSUED") {
		causes = append(causes, Cause{Kind: "reboot", Sure: Certain, Text: "Somebody has told Slurm to reboot the node.", Cures: []Cure{doSlurm("keep it from that", "scontrol", "cancel_reboot", n.Name)}})
	}
	return causes
}

// notInService says whose drain or failure it is, and what ends it.
func (f *Facts) notInService(pod *Pod) Cause {
	n := f.Node
	since := ""
	if n.Since.Is() {
		since = at(n.Since.Time())
	}
	g := slurm.Group{Nodes: n.Name, Count: 1, State: "drained", User: n.User, Since: since, Reason: n.Reason}
	switch {
	case n.Is("DOWN"):
		g.State = "down"
	case n.Is("FAIL"):
		g.State = "fail"
	case f.jobsThere():
		g.State = "draining"
	}
	c := f.closedGroup(&g)
	switch owner := reasons.Of(n.Reason); {
	case owner == reasons.Silent:
		return f.silent(pod)
	case owner == reasons.Agent:
		c.Cures = f.agentDrain(pod)
	case owner == reasons.Registration:
		c.Kind, c.Cures = "registration", []Cure{do("see what was measured, and where it is from", "kubectl", "exec", podName(pod, n.Name), "--", "slurmlet", "status")}
	case owner == reasons.Relaunched || owner == reasons.Nobody || n.Is("DOWN"):
		c.Kind = "down"
		c.Cures = []Cure{do("let it have jobs again", "kubectl", "slurm", "resume", n.Name)}
	}
	if f.jobsThere() {
		c.Details = append(c.Details, "Jobs still run there. New ones do not come.")
	}
	return c
}

func (f *Facts) jobsThere() bool { return f.Node.Is("ALLOCATED", "MIXED") }

// agentDrain is what ends a drain of an agent's own.
func (f *Facts) agentDrain(pod *Pod) []Cure {
	reason := f.Node.Reason
	switch {
	case strings.HasPrefix(reason, reasons.Terminating):
		return []Cure{advise("nothing: the pod ends when its jobs are over, and the node comes back with the next pod (docs/run/delete-a-pod.md)")}
	case strings.HasPrefix(reason, reasons.Resized):
		return []Cure{advise("nothing: slurmlet waits for the node's jobs, and registers the new size then")}
	case strings.HasPrefix(reason, reasons.Kept):
		return []Cure{advise("nothing, if its pod comes back; otherwise take the node out of the jobs and reservations that name it (docs/run/named-nodes.md)")}
	case strings.HasPrefix(reason, reasons.LostMachine):
		return []Cure{advise("nothing, if a pod of the name comes on another machine")}
	}
	return []Cure{do("see what its agent says", "kubectl", "exec", podName(pod, f.Name), "--", "slurmlet", "status")}
}

// silent: slurmctld hears nothing of the node's slurmd, though it has a pod.
func (f *Facts) silent(pod *Pod) Cause {
	c := Cause{Kind: "silent", Sure: Certain, Text: "slurmctld hears nothing of the node's slurmd."}
	if pod == nil {
		c.Details = []string{"The node has no pod."}
		return c
	}
	if m := f.Machines[pod.Machine]; m != nil && m.lost() {
		c.Kind, c.Text = "machine", "slurmctld hears nothing of the node's slurmd, because its machine is not well."
		c.Details = f.machineSays(pod.Machine)
		c.Cures = f.machineCures(pod.Machine)
		return c
	}
	if f.Agent != nil {
		c.Details = append(c.Details, fmt.Sprintf("Its agent says: %s %s", f.Agent.State, f.Agent.Reason))
	}
	c.Cures = []Cure{do("read what it says", "kubectl", "slurm", "logs", f.Name), advise("see whether slurmctld's pod reaches its port 6818: a NetworkPolicy may forbid it")}
	return c
}

func (f *Facts) reservationOf(node string) Cause {
	c := Cause{Kind: "reserved", Sure: Certain, Text: "A reservation has the node."}
	for i := range f.Reservations {
		r := &f.Reservations[i]
		if slices.Contains((&slurm.Group{Nodes: r.Nodes}).Names(), node) {
			c.Details = append(c.Details, fmt.Sprintf("%s has it until %s for %s.", r.Name, at(r.End.Time()), cmp.Or(r.Users, r.Accounts, "nobody")))
			c.Cures = append(c.Cures, doSlurm("delete the reservation", "scontrol", "delete", "reservation="+r.Name))
		}
	}
	return c
}

// kubernetesTaint begins the taints that Kubernetes sets and takes away itself, as for a full disk.
const kubernetesTaint = "node.kubernetes.io/"

// lost says that Kubernetes hears nothing of the machine, or does not have it any more.
func (m *Machine) lost() bool { return m.Missing || m.Unready != "" }

// machineCures are for one that is not as it should be, and neither cordoned nor tainted by a person.
func (f *Facts) machineCures(name string) []Cure {
	m := f.Machines[name]
	if m != nil && m.Missing {
		return []Cure{advise("nothing, if a pod of the name comes on another machine; otherwise bring the machine back")}
	}
	cures := []Cure{do("look at the machine, and bring it or its kubelet back", "kubectl", "describe", "node", name)}
	if m != nil && m.lost() {
		cures = append(cures, do("or, if it is off and stays off, say so, so that its pods are made on others", "kubectl", "taint", "node", name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"))
	}
	return cures
}

// machineSays is what Kubernetes says of a machine that is not as it should be.
func (f *Facts) machineSays(name string) (all []string) {
	m := f.Machines[name]
	if m == nil {
		return nil
	}
	switch {
	case m.Missing:
		all = append(all, fmt.Sprintf("Kubernetes has no node %s any more.", name))
	case m.Unready != "":
		all = append(all, fmt.Sprintf("The machine %s is not Ready: %s.", name, strings.TrimSuffix(m.Unready, ".")))
	}
	if m.Cordoned {
		all = append(all, fmt.Sprintf("The machine %s is cordoned.", name))
	}
	if m.BySlurm != "" {
		all = append(all, "slurmlet's controller has cordoned it, because somebody has drained a Slurm node there: "+m.BySlurm+".")
	}
	for _, taint := range m.Taints {
		if !m.lost() || !strings.HasPrefix(taint, kubernetesTaint) {
			all = append(all, fmt.Sprintf("The machine %s has the taint %s.", name, taint))
		}
	}
	return all
}

func podName(pod *Pod, node string) string {
	if pod == nil {
		return node
	}
	return pod.Name
}

// shown are the facts for somebody who must find the cause himself.
func (f *Facts) shown() (all []string) {
	for i := range f.Partitions {
		p := &f.Partitions[i]
		all = append(all, fmt.Sprintf("Partition %s is %s, with %d nodes.", p.Name, strings.Join(p.State.State, "+"), p.Nodes.Total))
	}
	for _, g := range f.Groups {
		all = append(all, fmt.Sprintf("%s (%s): %s%s, %d CPUs and %s each, %d CPUs idle. %s", g.Nodes, g.Partition, g.State, g.Mark, g.CPUs, mib(g.Memory), g.Idle, g.Reason))
	}
	if f.Job != nil {
		all = append(all, f.expected())
	}
	if p := f.Pods[f.Name]; p != nil {
		all = append(all, fmt.Sprintf("Pod %s is %s. %s", p.Name, p.Phase, p.Message))
		for _, e := range p.Events {
			all = append(all, fmt.Sprintf("Event of %s: %s: %s", p.Name, e.Reason, e.Message))
		}
		all = append(all, f.machineSays(p.Machine)...)
	}
	if f.Agent != nil {
		all = append(all, fmt.Sprintf("Its agent says: %s %s", f.Agent.State, f.Agent.Reason))
	}
	return all
}
