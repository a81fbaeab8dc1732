package roll

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Set is a StatefulSet or DaemonSet of nodes, as far as a roll needs it.
type Set struct {
	// Want is how many pods it is to have, AtOnce how many of them may be away or not ready.
	Want, AtOnce int
	// Busy: pods with jobs may be deleted, too. Each waits for its jobs then.
	Busy bool
	Pods []Pod
}

// Pod is one of a Set.
type Pod struct {
	UID  types.UID
	Name string
	// Old: its revision is not the set's. Pending: no container of it has run.
	Old, Ready, Ending, Pending bool
	// State is empty where nobody has told it.
	State wire.State
}

// Plan chooses the pods to delete now, so that the set's controller makes them anew.
//
//   - Never are more than AtOnce of the wanted pods away or not ready because of it. An old pod that is not
//     ready takes no further place when it is deleted, so a pod that is stuck keeps its own place only, and
//     goes first when there is a newer revision.
//   - An idle pod goes before a busy one. A pod of which nobody tells whether it has jobs counts as busy.
//   - Whatever it chose before is Ending or away by now, so it chooses nothing twice.
func Plan(s Set) []Pod {
	away := max(0, s.Want-len(s.Pods))
	var old []Pod
	for _, p := range s.Pods {
		if p.Ending || !p.Ready {
			away++
		}
		if p.Old && !p.Ending && (s.Busy || p.rank() < busy) {
			old = append(old, p)
		}
	}
	slices.SortStableFunc(old, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(ready(a), ready(b)), cmp.Compare(a.Name, b.Name))
	})
	free := max(s.AtOnce, 1) - away
	var chosen []Pod
	idleLeft := false
	for _, p := range old {
		if p.rank() == busy && idleLeft {
			break // it waits for its turn
		}
		switch {
		case !p.Ready:
		case free > 0:
			free--
		default:
			idleLeft = idleLeft || p.rank() < busy
			continue
		}
		chosen = append(chosen, p)
	}
	return chosen
}

// The ranks, in the order in which pods go.
const (
	idle = iota
	busy
)

// rank: a pod that is ready and has no node is busy, because its node may have another name.
func (p Pod) rank() int {
	if p.Pending || p.State == wire.Idle || p.State == wire.Absent && !p.Ready {
		return idle
	}
	return busy
}

func ready(p Pod) int {
	if p.Ready {
		return 1
	}
	return 0
}
