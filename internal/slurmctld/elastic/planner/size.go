package planner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
)

// differs says whether a record was made of another size. A record's mark says what it was made of, so that
// one which slurmctld shows in another way is not made anew for ever.
func (s Set) differs(n *slurm.Node) bool {
	if setOf(n.Comment) != "" {
		_, size, _ := strings.Cut(n.Comment, ": ")
		size, _, _ = strings.Cut(size, suspendTime)
		return size != s.conf
	}
	return n.CPUs != s.Size.CPUs || n.RealMemory != s.Size.RealMemory || n.TmpDisk != s.Size.TmpDisk ||
		gres.Recorded(s.Size.Gres).Differs(gres.Recorded(n.Gres), nil)
}

// mistimed says whether a record was made with another SuspendTime.
func (s Set) mistimed(n *slurm.Node, timed bool) bool {
	_, had, _ := strings.Cut(n.Comment, suspendTime)
	return timed && setOf(n.Comment) != "" && had != strings.TrimPrefix(s.suspend(timed), suspendTime)
}

// updateFields are the fields of a record that can be changed while jobs run, and its mark. Somebody else's Comment stays.
func (s Set) updateFields(n *slurm.Node, timed bool) (fields []string) {
	if features := s.Traits.Features.Value; features != sorted(n.Features) {
		fields = append(fields, "availablefeatures="+features, "activefeatures="+features)
	}
	weight := s.Traits.Weight.Value
	if weight == "" {
		weight = "1"
	}
	if weight != strconv.Itoa(n.Weight) {
		fields = append(fields, "weight="+weight)
	}
	if topology := s.Traits.Topology.Value; topology != "" && topology != n.Topology {
		fields = append(fields, "topology="+topology)
	}
	if name := setOf(n.Comment); n.Comment == "" || name != "" && name != s.Name {
		fields = append(fields, "comment="+s.comment(timed))
	}
	return fields
}

func sorted(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ",")
}
