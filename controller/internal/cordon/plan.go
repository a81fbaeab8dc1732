// Package cordon keeps new pods off the machines whose Slurm nodes somebody has drained, when a setting
// asks for it.
package cordon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/internal/peers"
)

// Mode is how a machine is marked.
type Mode string

// The modes.
const (
	Off    Mode = ""
	Cordon Mode = machines.CordonMark // spec.unschedulable
	Taint  Mode = "taint"             // slurmlet.dev/drained:NoSchedule
)

// ParseMode takes off, cordon and taint.
func ParseMode(text string) (Mode, error) {
	switch text {
	case "", "off":
		return Off, nil
	case string(Cordon), string(Taint):
		return Mode(text), nil
	}
	return Off, fmt.Errorf("want off, cordon or taint, not %q", text)
}

// own are the beginnings of reasons that slurmlet's agents give to drains of their own.
var own = []string{"slurmlet: ", "slurmlet cordon: "}

// slurms are slurmctld's own reasons: for a slurmd that is silent, for one that has not come in time, and for a job that it
// had forgotten. Nobody has drained such a node. slurmctld appends one to what is there ("disk : Not responding").
var slurms = []string{"Not responding", "ResumeTimeout reached", "Duplicate jobid"}

// foreign says whether somebody else has drained a node.
func foreign(reason string) bool {
	first, _, _ := strings.Cut(reason, " : ")
	return first != "" && !slices.Contains(slurms, first) && !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(reason, prefix) })
}

// action is what becomes of a machine.
type action int

const (
	nothing action = iota
	mark
	unmark
)

// plan chooses what becomes of a machine with these nodes.
//
//   - A machine is marked when somebody has drained one of its nodes, and nobody else has cordoned it.
//   - The mark goes when slurmctld has a record of one of its nodes, and no drain of any. Without a record
//     nobody has resumed the node, so a deleted pod takes no mark away.
//   - A node without a State is unknown. It gives no mark, and keeps the one that is there.
//   - Only the controller's own mark goes: the annotation says that it is one.
func plan(mode Mode, m machines.Machine, nodes []peers.NodeReport) (action, string) {
	var why []string
	resumed, unknown := false, false
	for _, n := range nodes {
		switch {
		case foreign(n.Drain):
			why = append(why, n.Name+": "+n.Drain)
		case n.State == "":
			unknown = true
		case n.State != peers.Absent:
			resumed = true
		}
	}
	slices.Sort(why)
	switch marked := m.Mark != ""; {
	case len(why) > 0 && !marked && (mode == Taint || !m.Unschedulable):
		return mark, strings.Join(why, "; ")
	case len(why) == 0 && resumed && !unknown && marked:
		return unmark, ""
	}
	return nothing, ""
}
