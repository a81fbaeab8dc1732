package planner

import (
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// planRecord decides about one record.
func (p *planner) planRecord(n *slurm.Node) {
	set, has := p.Sets.Of(n.Name)
	if !isOurs(n) {
		if has {
			p.standing[set.Name].Foreign = append(p.standing[set.Name].Foreign, n.Name)
		}
		return
	}
	p.noteForeign(n)
	of := setOf(n.Comment)
	switch {
	case has:
		p.classify(n, set.Name)
		p.keepRecord(n, set)
	case of == "" || slices.Contains(p.Sets.Bad, of):
		if of != "" {
			p.plan.Elastic[n.Name] = of // the set's file has a fault now
		}
	default:
		if p.standing[of] == nil {
			p.standing[of] = &Standing{Name: of, Removed: true, Kept: map[string]string{}, Refused: map[string]string{}}
		}
		p.classify(n, of)
		p.replaceRecord(n, of, reasons.SetRemoved)
	}
}

// classify counts how the node stands.
func (p *planner) classify(n *slurm.Node, set string) {
	s := p.standing[set]
	p.plan.Elastic[n.Name] = set
	s.Records++
	if _, is := failedReason(n); is {
		s.Failed = append(s.Failed, n.Name)
	}
	if n.Off() {
		delete(p.starting, n.Name)
		if n.Is("POWERING_DOWN") || p.Pod != nil && p.Pod(n.Name) {
			s.Ending = append(s.Ending, n.Name)
			p.lookSoon()
		}
		if n.Is("POWERING_DOWN", "POWER_UP", "POWER_DOWN") { // slurmctld does it within seconds, or has forgotten it
			p.open[n.Name] = true
			p.lookSoon()
		}
		return
	}
	s.Wanted = append(s.Wanted, n.Name)
	since, known := p.starting[n.Name]
	switch {
	case n.State.Up():
		if known {
			p.plan.Started = append(p.plan.Started, Started{set, n.Name, p.At.Sub(since)})
			p.endPauses(set)
		}
		delete(p.starting, n.Name)
		s.Up = append(s.Up, n.Name)
	case !n.Is("DOWN") && n.State.Starting():
		if !known {
			since = p.At
			p.starting[n.Name] = since
		}
		s.Starting = append(s.Starting, n.Name)
		if s.Since.IsZero() || since.Before(s.Since) {
			s.Since = since
		}
		p.lookSoon()
	}
}

// endPauses: the set's nodes start again, so that those that failed may be tried.
func (p *planner) endPauses(set string) {
	for key := range p.pauses {
		if key.set == set {
			delete(p.pauses, key)
		}
	}
}

// holdsJobs says whether jobs hold the node, or leave something behind there.
func (p *planner) holdsJobs(n *slurm.Node) bool { return p.Suspended[n.Name] || n.State.HoldsJobs() }

// heldBy: something of Slurm's counts on the record.
func (p *planner) heldBy(n *slurm.Node) string {
	switch {
	case p.holdsJobs(n):
		return "jobs hold the node"
	case n.State.Reserved():
		return "a reservation has the node"
	}
	return ""
}

// isPoweredOff: the pod is gone, or slurmctld has given it its time to go. A pod that is known to be there is not.
func (p *planner) isPoweredOff(n *slurm.Node) bool {
	if p.Pod != nil {
		return n.Off() && !p.Pod(n.Name)
	}
	return n.Is("POWERED_DOWN")
}

// replaceRecord has a record deleted: drained, once nothing holds it powered down, and gone with its pod.
func (p *planner) replaceRecord(n *slurm.Node, set, reason string) {
	held := p.heldBy(n)
	drained := n.Is("DRAIN") || n.Is("DOWN")
	jobs := p.holdsJobs(n)
	kept := p.standing[set].Kept
	switch {
	case jobs && p.giveUp(n):
	case jobs && !drained && n.Is("POWERED_DOWN", "POWERING_UP", "POWER_UP"): // a drain would requeue its jobs
		kept[n.Name] = "a job waits for its pod"
		p.lookSoon()
	case held == "" && p.isPoweredOff(n):
		p.do(Delete, n.Name, "")
	case held == "" && n.Off():
		kept[n.Name] = "its pod has not ended yet"
		p.lookSoon()
	case !drained && (jobs || held == ""):
		kept[n.Name] = "it is drained first"
		p.do(Drain, n.Name, reason)
	case held != "":
		kept[n.Name] = held
		p.lookSoon()
	case n.Is("POWER_DOWN"):
		kept[n.Name] = "Slurm powers the node down"
		p.lookSoon()
	default:
		kept[n.Name] = "Slurm powers the node down"
		p.do(PowerDown, n.Name, "") // it is drained, and nothing holds it
	}
}

// keepRecord decides about a record of a set.
func (p *planner) keepRecord(n *slurm.Node, set Set) {
	if set.differs(n) {
		p.replaceRecord(n, set.Name, reasons.SetResized)
		return
	}
	if set.mistimed(n, p.Timed) && p.heldBy(n) == "" && p.isPoweredOff(n) && !n.Is("DOWN") && !n.Is("DRAIN", "FAIL") {
		p.do(Delete, n.Name, "") // nobody is sent away for that
		return
	}
	if !p.Timed && n.Comment == "" && n.Is("IDLE") && n.Is("POWERED_DOWN") && !n.Is("DRAIN", "POWER_UP") && p.heldBy(n) == "" {
		p.do(Activate, n.Name, reasons.SetNew, "comment="+set.comment(p.Timed))
		return
	}
	if fields := set.updateFields(n, p.Timed); len(fields) > 0 {
		p.do(Update, n.Name, "", fields...)
	}
	lifted := reasons.Has(n.Reason, reasons.SetResized) || reasons.Has(n.Reason, reasons.SetRemoved) ||
		reasons.Of(n.Reason) == reasons.Relaunched
	switch {
	case p.isForeign(n):
		return
	case n.Is("DOWN"):
		p.retryDown(n, set)
		return
	case p.giveUp(n):
		return
	case n.Is("DRAIN") && lifted && !n.Is("POWERING_DOWN", "POWER_DOWN"):
		p.do(Resume, n.Name, "")
	case n.Is("POWERING_DOWN") && p.isPodGone(n) && !p.holdsJobs(n): // a reservation's jobs wait for it
		p.do(Resume, n.Name, "")
	}
	if p.neverRegistered(n) {
		p.do(PowerDown, n.Name, reasonNeverRegistered)
		return
	}
	switch {
	case n.Is("DRAIN"):
	case (!n.Off() || n.Is("POWER_UP")) && !n.Is("POWER_DOWN"):
		p.running[set.Name]++
	case n.Is("POWERED_DOWN") && n.Is("IDLE") && !n.Is("POWER_UP", "POWER_DOWN", "POWERING_DOWN", "POWERING_UP"):
		p.startable[set.Name][n.Name] = true
	}
}

// noteForeign notes that somebody else has drained the node or set it DOWN, or had done so before ResumeTimeout.
func (p *planner) noteForeign(n *slurm.Node) {
	was := p.others[n.Name]
	switch {
	case n.ClosedByOthers():
		p.others[n.Name] = n.Reason
	case was == "" || !n.Is("DOWN") || !strings.HasPrefix(n.Reason, was):
		delete(p.others, n.Name)
	}
}

// isForeign: the node's state is somebody else's, and stays.
func (p *planner) isForeign(n *slurm.Node) bool {
	_, is := p.others[n.Name]
	return is
}

// isPodGone: the pod of a node that slurmctld suspends is gone. One that was off before it went through POWERING_DOWN had none.
func (p *planner) isPodGone(n *slurm.Node) bool {
	if p.Pod != nil {
		return !p.Pod(n.Name)
	}
	return p.poweredDownLately(n)
}

const reasonNeverRegistered = "slurmctld has never heard of its slurmd"

// poweredDownLately: the way through POWERING_DOWN was taken lately.
func (p *planner) poweredDownLately(n *slurm.Node) bool {
	t := p.tries[n.Name][PowerDown]
	return t != nil && t.key == (&Step{Verb: PowerDown, Text: reasonNeverRegistered}).key()
}

// neverRegistered: 24.11 gives such a record no job once it has read slurm.conf again. Its way through POWERING_DOWN ends that.
func (p *planner) neverRegistered(n *slurm.Node) bool {
	if !n.Is("IDLE") || !n.Is("POWERED_DOWN") || !n.Is("NOT_RESPONDING") ||
		n.Is("DRAIN", "FAIL", "POWER_DOWN", "POWERING_DOWN", "POWER_UP", "POWERING_UP") {
		return false
	}
	return p.heldBy(n) == "" && p.isPoweredOff(n)
}
