package planner

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// Pods are slurmd's pods, those that live and those that are gone and may have left a record.
type Pods struct {
	live map[string]wire.Peer // by name
	gone map[string]*gone
	// since is when the controller's first table came, zero before that.
	since time.Time
	// silent are the nodes of slurmlet's pods that no table has and that do not answer, and since when.
	silent map[string]time.Time
	// followed are nodes whose agents were connected to slurmctld's agent at some time.
	followed map[string]bool
}

// gone is a pod that is no more.
type gone struct {
	uid   string
	since time.Time
	// lost says that its machine is gone. listed says that the controller has reported its end; else only
	// its absence from a whole table shows it.
	lost, listed bool
	// failed: its node was set DOWN.
	failed bool
	// slurmd is the one that the record was of when it was looked at first.
	slurmd *slurmd
	tries  int
	next   time.Time
	why    string
}

// slurmd distinguishes one that has registered from another.
type slurmd struct {
	started, booted slurm.Time
	extra           string
}

func slurmdOf(n *slurm.Node) slurmd { return slurmd{n.SlurmdStartAt, n.BootAt, n.Extra} }

// replacedBy says whether another slurmd has registered. A slurmctld that has started has forgotten the times until one
// does.
func (s slurmd) replacedBy(now slurmd) bool {
	return now.extra != s.extra || now.started != 0 && now != s
}

const (
	// firstLook and lastLook bound the pauses between two looks at a record that has to stay for now. A
	// pause doubles with each fourth look.
	firstLook = time.Second
	lastLook  = time.Minute
)

// NewPods knows no pod.
func NewPods() *Pods { return &Pods{live: map[string]wire.Peer{}, gone: map[string]*gone{}} }

// Take brings the pods up to date.
func (p *Pods) Take(c peers.Change, now time.Time) {
	if p.since.IsZero() && c.Whole {
		p.since = now
	}
	for _, g := range c.Gone {
		if old, known := p.live[g.Name]; known && old.UID == g.UID {
			delete(p.live, g.Name)
			p.gone[g.Name] = &gone{uid: g.UID, since: now, lost: g.Lost, listed: !c.Whole || g.Lost, next: now}
		}
	}
	for _, peer := range c.Put {
		delete(p.live, peer.Name)
		if peer.Role == role.Slurmd {
			p.live[peer.Name] = peer
		}
	}
}

// CountGone is how many pods are gone whose records have not been settled, and Next when the first of them is
// to be looked at; zero for never.
func (p *Pods) CountGone() (n int, next time.Time) {
	for _, g := range p.gone {
		if next.IsZero() || g.next.Before(next) {
			next = g.next
		}
	}
	return len(p.gone), next
}

// Kept are the names of pods that are gone, and why their records stay.
func (p *Pods) Kept() map[string]string {
	kept := make(map[string]string, len(p.gone))
	for name, g := range p.gone {
		kept[name] = g.why
	}
	return kept
}

// Records are slurmctld's node records at a time.
type Records struct {
	// At is when slurmctld was asked for the nodes.
	At        time.Time
	Nodes     []slurm.Node
	Suspended map[string]bool
	// Connected says whether a node's agent is connected to slurmctld's agent.
	Connected func(name string) bool
	// SlurmdTimeout is slurm.conf's; 0 while it is not known, or where no node goes DOWN in silence.
	SlurmdTimeout time.Duration
}

// Plan says which records change, which stay, and what there is to log.
type Plan struct {
	// Fail are nodes to be set DOWN, by name, and the reasons. Delete are records to be deleted.
	Fail   map[string]string
	Delete []string
	// Stay are records that the pods' own agents have left for their next pods, by name, and why.
	Stay map[string]string
	// Doubt are nodes whose agents are connected although their pods are gone.
	Doubt []string
	// Held are nodes that jobs hold, where that is new.
	Held []string
	// New is what is new to log, by name.
	New map[string]string
	// Unsettled says that the plan would be another one if SlurmdTimeout were known.
	Unsettled bool
}

// The texts of what is logged.
const (
	whyConnected   = "its agent is still connected to slurmctld's agent"
	whyUnproved    = "its agent has never been connected to slurmctld's agent, so only slurmctld can know whether its slurmd answers"
	whyJobs        = "jobs hold the node"
	whyAlive       = "slurmctld has not found out yet that its slurmd does not answer"
	whySlurm       = "Slurm powers or reboots the node"
	settledNewPod  = "a new pod has its name"
	settledSlurmd  = "a slurmd has registered since"
	settledStatic  = "the record is not one that a slurmd has made by registering"
	settledStays   = "its record stays without it"
	settledNothing = "there is no record"
)

// Plan says what to do now with the records of the pods that are gone, and with those that no pod has.
func (p *Pods) Plan(r Records, now time.Time) Plan {
	plan := Plan{Fail: map[string]string{}, Stay: map[string]string{}, New: map[string]string{}}
	nodes, followed := make(map[string]*slurm.Node, len(r.Nodes)), map[string]bool{}
	for i := range r.Nodes {
		name := r.Nodes[i].Name
		nodes[name] = &r.Nodes[i]
		if p.followed[name] || r.Connected(name) {
			followed[name] = true
		}
	}
	p.followed = followed
	for _, name := range slices.Sorted(maps.Keys(p.gone)) {
		g := p.gone[name]
		if g.next.After(now) || r.At.Before(g.since) {
			continue
		}
		settled, why := p.judge(&plan, name, g, nodes[name], r.Suspended[name], r)
		switch {
		case settled:
			delete(p.gone, name)
		default:
			g.next = now.Add(backoff.Grow(firstLook, g.tries/4, lastLook))
			g.tries++
		}
		if why != "" && why != g.why {
			plan.New[name] = why
			if !settled && holdsJobs(nodes[name], r.Suspended[name]) {
				plan.Held = append(plan.Held, name)
			}
		}
		g.why = why
	}
	silent := map[string]time.Time{}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if !p.isLeft(n, r.Suspended[n.Name]) || r.Connected(n.Name) {
			continue
		}
		if since, known := p.silent[n.Name]; known {
			silent[n.Name] = since
		} else {
			silent[n.Name] = now
		}
		p.judgeLeft(&plan, n, r, now.Sub(silent[n.Name]), now)
	}
	p.silent = silent
	return plan
}

// judge decides about one pod that is gone. settled says that nothing is left to be done.
func (p *Pods) judge(plan *Plan, name string, g *gone, n *slurm.Node, suspended bool, r Records) (settled bool, why string) {
	successor, replaced := p.live[name]
	switch {
	case n == nil:
		return true, settledNothing
	case replaced && (len(successor.Addresses) > 0 || !g.lost || g.failed):
		return true, settledNewPod // its own agent sets the record right
	case !deletable(n) && !g.lost:
		return true, settledStatic // an elastic node's, among others
	case !n.SlurmdStartAt.Time().Before(g.since.Truncate(time.Second)) || g.slurmd != nil && g.slurmd.replacedBy(slurmdOf(n)):
		return true, settledSlurmd
	}
	if g.slurmd == nil {
		s := slurmdOf(n)
		g.slurmd = &s
	}
	jobs := holdsJobs(n, suspended)
	switch {
	case r.Connected(name):
		plan.Doubt = append(plan.Doubt, name)
		return false, whyConnected
	case jobs && g.lost && !g.failed && !p.followed[name] && !n.Is("DOWN") && !n.Is("NOT_RESPONDING"):
		return false, whyUnproved // agents of clusters with munge, or without the port, never are
	case jobs && g.lost && !g.failed:
		plan.Fail[name] = lostReason(n)
		return false, ""
	case replaced:
		return true, settledNewPod
	case !deletable(n):
		return true, settledStatic
	case jobs:
		return false, whyJobs
	case !n.Is("IDLE", "DOWN"), n.State.InPowerSaving(), n.State.Reboots():
		return false, whySlurm
	case !g.lost && !g.listed && !n.Is("DOWN") && !n.Is("NOT_RESPONDING"):
		return false, whyAlive
	case n.StaysWithoutPod():
		plan.Stay[name] = strings.TrimPrefix(n.Reason, reasons.Kept)
		return true, settledStays
	}
	plan.Delete = append(plan.Delete, name)
	return false, ""
}

// lostReason keeps the reason of somebody else's drain.
func lostReason(n *slurm.Node) string {
	if n.Is("DRAIN") && n.Reason != "" && reasons.Of(n.Reason) != reasons.Agent {
		return n.Reason
	}
	return reasons.LostMachine
}

// deletable: a slurmd has made the record by registering. All others are the administrator's.
func deletable(n *slurm.Node) bool {
	return n.Is("DYNAMIC_NORM") && !n.Is("CLOUD") && !n.Is("FUTURE")
}

func holdsJobs(n *slurm.Node, suspended bool) bool { return suspended || n.State.HoldsJobs() }

// isLeft: no pod has the record, nobody has reported the end of one that had it, and slurmctld has found
// out by itself that its slurmd is gone. slurmlet has marked the record: slurmds that run elsewhere, and
// come back, are none of Kubernetes'.
func (p *Pods) isLeft(n *slurm.Node, suspended bool) bool {
	_, live := p.live[n.Name]
	_, gone := p.gone[n.Name]
	return !live && !gone && !p.since.IsZero() && deletable(n) && !n.StaysWithoutPod() && (p.isDown(n) || isSilent(n)) &&
		!holdsJobs(n, suspended) && !n.State.InPowerSaving() && n.Marked()
}

// isDown: slurmctld, or an earlier agent of it, has set the node DOWN.
func (p *Pods) isDown(n *slurm.Node) bool {
	silent := reasons.Has(n.Reason, reasons.NotResponding) && !n.ClosedByOthers() && n.Is("NOT_RESPONDING") && n.ReasonAt != 0
	return n.Is("DOWN") && (silent || n.Reason == reasons.LostMachine)
}

// isSilent: a pod of the controller's made the record, and slurmctld has no answer of its slurmd.
func isSilent(n *slurm.Node) bool {
	return n.MarkedPod() && n.Is("NOT_RESPONDING") && !n.ClosedByOthers() &&
		n.Is("IDLE", "DOWN")
}

// leftFor is for how long slurmctld must have had no answer of a slurmd in a pod that no table has.
const leftFor = time.Minute

// judgeLeft deletes a record that was left for as long as slurmctld waits for a slurmd, and that no table
// of the pods has had for as long. The record of a pod goes earlier: the table has all pods. silent is for how long
// looks have found it so.
func (p *Pods) judgeLeft(plan *Plan, n *slurm.Node, r Records, silent time.Duration, now time.Time) {
	switch {
	case isSilent(n) && silent >= leftFor && now.Sub(p.since) >= leftFor:
		plan.Delete = append(plan.Delete, n.Name)
	case !p.isDown(n):
	case r.SlurmdTimeout == 0:
		plan.Unsettled = true
	case now.Sub(p.since) >= r.SlurmdTimeout && now.Sub(n.ReasonAt.Time()) >= r.SlurmdTimeout:
		plan.Delete = append(plan.Delete, n.Name)
	}
}

// Failed notes that slurmctld has set a node DOWN. Its record is looked at again at once.
func (p *Pods) Failed(name string, now time.Time) {
	if g := p.gone[name]; g != nil {
		g.failed, g.tries, g.next = true, 0, now
	}
}

// Deleted notes that a record is gone.
func (p *Pods) Deleted(name string) { delete(p.gone, name) }

// Refused notes why slurmctld has not deleted a record, or not set a node DOWN.
func (p *Pods) Refused(name, why string) {
	if g := p.gone[name]; g != nil {
		g.why = why
	}
}
