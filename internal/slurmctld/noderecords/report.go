package noderecords

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// Report is what the controller is told of all nodes.
//
// With 10,000 nodes a whole report has 0.4 MB (39 bytes for {"name":"gpu-00001","state":"idle"} and
// its comma), and the controller gets one from each slurmctld when it is started. After that only
// changes go out, one report for each time that slurmctld was asked: at 10 s that is six requests a
// minute, and nothing while no node changes. 100 nodes that change each second are 1,000 in a report, 40 kB,
// and 0.25 MB a minute. If all nodes change all the time, it is 2.4 MB a minute.
//
// suspended are the nodes that suspended jobs hold. sets has the elastic node sets, by the names of their nodes.
func Report(nodes []clusterview.Node, suspended map[string]bool, sets map[string]string) []peers.NodeReport {
	all := make([]peers.NodeReport, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		one := peers.NodeReport{Name: n.Name, State: stateOf(n, suspended[n.Name]), Drain: drainOf(n)}
		if set := sets[n.Name]; set != "" {
			one.Elastic, one.Wanted = set, Wanted(n)
		}
		all = append(all, one)
	}
	return all
}

// stateOf is busy wherever something of Slurm's needs the node as it is, and wherever it is not clear
// that nothing does. suspended says that a suspended job holds it, which its state does not tell.
func stateOf(n *clusterview.Node, suspended bool) peers.State {
	switch {
	case HoldsJobs(n, suspended):
		return peers.Busy
	case n.State == "FUTURE", n.Is("NOT_RESPONDING"), n.Is(powering...), staysWithoutPod(n):
		return peers.Absent
	case Reserved(n), n.State != "IDLE" && n.State != "DOWN", n.Is("REBOOT_ISSUED", "REBOOT_REQUESTED"):
		return peers.Busy
	}
	return peers.Idle
}

// staysWithoutPod: somebody names the node whose pod is gone, or the pod is made again (slurm.ReasonKept).
func staysWithoutPod(n *clusterview.Node) bool {
	return n.State == "DOWN" && strings.HasPrefix(n.Reason, slurm.ReasonKept)
}

// Wanted says whether Slurm wants the pod of an elastic node.
func Wanted(n *clusterview.Node) bool { return !n.Is("POWERED_DOWN", "POWERING_DOWN") }

// NotResponding is slurmctld's reason for a node whose slurmd is silent, TimedOut for one that has not come within
// ResumeTimeout.
const (
	NotResponding = "Not responding"
	TimedOut      = "ResumeTimeout reached"
)

// Relaunched: slurmctld has drained the node because a job ran there that it had forgotten.
func Relaunched(n *clusterview.Node) bool { return n.Reason == lifecycle.ReasonRelaunched }

// Told says whether slurmctld has given a reason. It appends one to what is there ("disk : Not responding"), and 24.11
// without slurmdbd keeps what is there when the node is back.
func Told(n *clusterview.Node, reason string) bool {
	return slices.Contains(strings.Split(n.Reason, separator), reason)
}

const separator = " : "

// Foreign says whether somebody else than slurmlet has drained the node or set it DOWN, or slurmctld because a prolog or
// the like has failed. slurmctld's own words for a node that is DOWN are nobody's.
func Foreign(n *clusterview.Node) bool {
	first, _, _ := strings.Cut(n.Reason, separator)
	if strings.HasPrefix(first, lifecycle.ReasonPrefix) || first == NotResponding || first == TimedOut || Relaunched(n) {
		return false
	}
	return n.Is("DRAIN", "FAIL") || n.State == "DOWN" && !Told(n, NotResponding) && !Told(n, TimedOut)
}

// HoldsJobs says whether jobs hold the node, or leave something behind there (COMPLETING).
func HoldsJobs(n *clusterview.Node, suspended bool) bool {
	return suspended || n.State == "ALLOCATED" || n.State == "MIXED" || n.Is("COMPLETING")
}

// Reserved says whether a reservation has begun on the node, some seconds after it has. slurmctld does not delete its record
// then. Such a node is to end after others, no more: no reservation loses one, because its record stays (package merge).
func Reserved(n *clusterview.Node) bool { return n.Is("RESERVED", "MAINTENANCE") }

const (
	// mostReason bounds a reason, in bytes: the controller writes it into an event or a taint.
	mostReason = 256
	// noReason stands for a drain whose reason is not known.
	noReason = "drained"
)

// drainOf is the reason why the node takes no jobs; empty while it does.
func drainOf(n *clusterview.Node) string {
	if n.State != "DOWN" && n.State != "ERROR" && !n.Is("DRAIN", "FAIL") {
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
