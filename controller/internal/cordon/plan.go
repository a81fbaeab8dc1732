// Package cordon keeps new pods off the machines whose Slurm nodes somebody has drained, when a setting
// asks for it.
package cordon

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
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

// ParseNamespaces takes none, or namespaces separated by commas.
func ParseNamespaces(text string) (names []string, err error) {
	if text == "none" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("want none, or namespaces separated by commas, not %q", text)
		}
		names = append(names, name)
	}
	return names, nil
}

// foreign says whether somebody else has drained a node: not slurmlet's agents, and not slurmctld, whose slurmd was silent.
func foreign(reason string) bool {
	switch owner := reasons.Of(reason); owner {
	case reasons.Nobody, reasons.Silent, reasons.Relaunched:
		return false
	default:
		return !owner.IsSlurmlet()
	}
}

// action is what becomes of a machine.
type action int

const (
	nothing action = iota
	mark
	// amend: the mark is for other nodes than before, and none of them is new.
	amend
	unmark
)

// node is one that a mark may be for.
type node struct {
	// cluster is namespace/label. here: the node's pod runs on the machine, and has the node's name.
	cluster string
	here    bool
	// NodeReport has no State where nobody has told of the node lately.
	wire.NodeReport
}

func (n *node) key() string { return n.cluster + "/" + n.Name }

// resumed says whether slurmctld has the node's record, and no drain of it. A node that is not here has registered anew
// elsewhere, but the record of an elastic one stays while pods come and go.
func (n *node) resumed() bool {
	return n.State != "" && !foreign(n.Drain) && (n.Elastic != "" || n.here && n.State != wire.Absent)
}

// plan chooses what becomes of a machine. nodes are those that run here, and those that its mark is for.
//
//   - A machine is marked when somebody has drained one of its nodes, and nobody else has cordoned it.
//   - The mark goes when each node that it is for was resumed, whatever other nodes do. Without a record nobody has
//     resumed a node, so a deleted pod takes no mark away.
//   - A node without a State is unknown. It gives no mark, and keeps the one that is there.
//   - Only the controller's own mark goes: the annotation says that it is one.
func plan(mode Mode, m machines.Machine, nodes []node) (what action, drained []string, why string) {
	var reasons []string
	before := split(m.Drained)
	for i := range nodes {
		n := &nodes[i]
		switch is := n.here && foreign(n.Drain); {
		case is:
			reasons = append(reasons, n.Name+": "+n.Drain)
			drained = append(drained, n.key())
		case slices.Contains(before, n.key()) && !n.resumed():
			reasons = append(reasons, n.Name+": nobody has resumed it")
			drained = append(drained, n.key())
		}
	}
	slices.Sort(reasons)
	slices.Sort(drained)
	why = strings.Join(reasons, "; ")
	isNew := slices.ContainsFunc(drained, func(key string) bool { return !slices.Contains(before, key) })
	switch marked := m.Mark != ""; {
	case !marked && len(drained) > 0 && (mode == Taint || !m.Unschedulable), marked && isNew:
		return mark, drained, why
	case marked && len(drained) == 0 && (len(before) > 0 || resumed(nodes)):
		return unmark, nil, ""
	case marked && len(drained) > 0 && !slices.Equal(drained, before):
		return amend, drained, why
	}
	return nothing, nil, ""
}

// resumed decides on a mark that does not say what it is for.
func resumed(nodes []node) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n node) bool { return !n.resumed() })
}

// split takes the value of machines.DrainedAnnotation apart.
func split(drained string) []string {
	if drained == "" {
		return nil
	}
	return strings.Split(drained, ",")
}
