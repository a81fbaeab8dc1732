package noderecords

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// Report is what the controller gets of all nodes.
//
// With 10,000 nodes a whole report has 0.4 MB (39 bytes for {"name":"gpu-00001","state":"idle"} and
// its comma), and the controller gets one from each slurmctld when it is started. After that only
// changes go out, one report for each time that slurmctld was asked: at 10 s that is six requests a
// minute, and nothing while no node changes. 100 nodes that change each second are 1,000 in a report, 40 kB,
// and 0.25 MB a minute. If all nodes change all the time, it is 2.4 MB a minute.
//
// suspended are the nodes that suspended jobs hold. sets has the elastic node sets, by the names of their nodes.
func Report(nodes []slurm.Node, suspended map[string]bool, sets map[string]string) []wire.NodeReport {
	all := make([]wire.NodeReport, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		one := wire.NodeReport{Name: n.Name, State: stateOf(n, suspended[n.Name]), Drain: drainOf(n)}
		if set := sets[n.Name]; set != "" {
			one.Elastic, one.Wanted = set, Wanted(n)
		}
		all = append(all, one)
	}
	return all
}

// stateOf is busy wherever something of Slurm's needs the node as it is, and wherever it is not clear
// that nothing does. suspended says that a suspended job holds it, which its state does not show.
func stateOf(n *slurm.Node, suspended bool) wire.State {
	switch {
	case HoldsJobs(n, suspended):
		return wire.Busy
	case n.Is("FUTURE"), n.Is("NOT_RESPONDING"), n.State.Powered(), staysWithoutPod(n):
		return wire.Absent
	case Reserved(n), !n.Is("IDLE", "DOWN"), n.State.Reboots():
		return wire.Busy
	}
	return wire.Idle
}

// staysWithoutPod: somebody names the node whose pod is gone, or the pod is made again (reasons.Kept).
func staysWithoutPod(n *slurm.Node) bool {
	_, kept := reasons.IsKept(n.Reason)
	return n.Is("DOWN") && kept
}

// Wanted says whether Slurm wants the pod of an elastic node.
func Wanted(n *slurm.Node) bool { return !n.Off() }

// Foreign says whether somebody else than slurmlet has drained the node or set it DOWN, or slurmctld because a prolog or
// the like has failed. slurmctld's own words for a node that is DOWN are nobody's.
func Foreign(n *slurm.Node) bool {
	switch reasons.Of(n.Reason) {
	case reasons.Agent, reasons.Silent, reasons.Relaunched:
		return false
	}
	return n.Is("DRAIN", "FAIL") || n.Is("DOWN") && !reasons.Has(n.Reason, reasons.NotResponding) &&
		!reasons.Has(n.Reason, reasons.TimedOut)
}

// HoldsJobs says whether jobs hold the node, or leave something behind there (COMPLETING).
func HoldsJobs(n *slurm.Node, suspended bool) bool {
	return suspended || n.State.HoldsJobs()
}

// Reserved says whether a reservation has begun on the node, some seconds after it has. slurmctld does not delete its record
// then. Such a node is to end after others, no more: no reservation loses one, because its record stays (package merge).
func Reserved(n *slurm.Node) bool { return n.State.Reserved() }

const (
	// mostReason bounds a reason, in bytes: the controller writes it into an event or a taint.
	mostReason = 256
	// noReason stands for a drain whose reason is not known.
	noReason = "drained"
)

// drainOf is the reason why the node takes no jobs; empty while it does.
func drainOf(n *slurm.Node) string {
	if !n.State.Closed() {
		return ""
	}
	text := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, n.Reason)
	for len(text) > mostReason {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	if strings.TrimSpace(text) == "" {
		return noReason
	}
	return text
}
