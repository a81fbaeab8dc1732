package peers

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// NodeReports are what the controller gets of all nodes.
//
// With 10,000 nodes a whole report has 0.4 MB (39 bytes for {"name":"gpu-00001","state":"idle"} and
// its comma), and the controller gets one from each slurmctld when it is started. After that only
// changes go out, one report for each time that slurmctld was asked: at 10 s that is six requests a
// minute, and nothing while no node changes. 100 nodes that change each second are 1,000 in a report, 40 kB,
// and 0.25 MB a minute. If all nodes change all the time, it is 2.4 MB a minute.
//
// suspended are the nodes that suspended jobs hold. sets has the elastic node sets, by the names of their nodes.
func NodeReports(nodes []slurm.Node, suspended map[string]bool, sets map[string]string) []wire.NodeReport {
	all := make([]wire.NodeReport, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		one := wire.NodeReport{Name: n.Name, State: reportedState(n, suspended[n.Name]), Drain: reportedDrain(n)}
		if set := sets[n.Name]; set != "" {
			one.Elastic, one.Wanted = set, !n.Off()
		}
		all = append(all, one)
	}
	return all
}

// reportedState is busy wherever something of Slurm's needs the node as it is, and wherever it is not clear
// that nothing does. suspended says that a suspended job holds it, which its state does not show.
func reportedState(n *slurm.Node, suspended bool) wire.State {
	switch {
	case suspended, n.State.HoldsJobs():
		return wire.Busy
	case n.Is("FUTURE"), n.Is("NOT_RESPONDING"), n.State.InPowerSaving(), n.StaysWithoutPod():
		return wire.Absent
	case n.State.Reserved(), // some seconds after it has begun; such a node is to end after others, no more
		!n.Is("IDLE", "DOWN"), n.State.Reboots():
		return wire.Busy
	}
	return wire.Idle
}

const (
	// mostReason bounds a reason, in bytes: the controller writes it into an event or a taint.
	mostReason = 256
	// noReason stands for a drain whose reason is not known.
	noReason = "drained"
)

// reportedDrain is the reason why the node takes no jobs; empty while it does.
func reportedDrain(n *slurm.Node) string {
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
