package elastic

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
)

// View is all that decides what becomes of a node.
type View struct {
	// Known: a fresh report tells what follows. Elastic: the node is in an elastic set; Wanted: Slurm wants its pod.
	Known, Elastic, Wanted bool
	// Pod has the node's name; nil: there is none.
	Pod *Pod
	// Made: this leader has made a pod of which the watch has not told yet.
	Made bool
	// Refused is why no pod can be made, until Until; zero: until something changes. A pause has no reason.
	Refused *Trouble
	Until   time.Time
	// Rest is when a node whose pods die at once gets its next one, and Died what the last one died of.
	Rest time.Time
	Died *Trouble
	// Held is until when Pod's deletion waits, because Kubernetes has refused one.
	Held time.Time
	// Excluded: the settings leave the namespace out.
	Excluded bool
}

// Pod is a pod with a node's name.
type Pod struct {
	UID types.UID
	// Elastic: it is a pod of an elastic set of the cluster.
	Elastic, Ending, Over, Ready bool
	// Deleted: this leader has deleted it, and the watch has not told yet. Unwanted: its node was not wanted once.
	Deleted, Unwanted bool
	NotRunning        *pods.NotRunning
}

// Trouble is what keeps a node's pod from running.
type Trouble struct {
	Reason, Note string
	// Since is zero where nobody knows yet.
	Since time.Time
}

// Action is what is to be done about a node.
type Action int

// The actions.
const (
	Nothing Action = iota
	Create
	Delete
)

func (a Action) String() string { return [...]string{"nothing", "create", "delete"}[a] }

// Step is what Decide decides.
type Step struct {
	Action Action
	// UID is the pod's that is deleted.
	UID types.UID
	// Again is when to decide anew; zero: when something changes.
	Again time.Time
	// Trouble is what keeps the pod of a wanted node from running; nil: nothing does.
	Trouble *Trouble
	// Starting: the node is wanted, and its pod is not ready.
	Starting bool
}

// Decide chooses what becomes of a node.
//
//   - Without a fresh report nothing happens.
//   - A pod is deleted only if it is an elastic set's, and its node is not wanted, or no container of it will run
//     again.
//   - A pod whose node was not wanted once goes too, because slurmctld takes no slurmd that is older than its wish.
//   - A pod that is being deleted must vanish before the next one of its name.
//   - A deletion that Kubernetes has refused waits.
//   - A pod in a namespace that the settings leave out stays. Refused tells that none is made there.
func Decide(v View, now time.Time) Step {
	s := decide(v, now)
	switch {
	case s.Action != Delete:
	case v.Excluded:
		s.Action, s.UID = Nothing, ""
	case now.Before(v.Held):
		s.Action, s.UID, s.Again = Nothing, "", v.Held
	}
	return s
}

func decide(v View, now time.Time) Step {
	if !v.Known || !v.Elastic {
		return Step{}
	}
	if !v.Wanted {
		if p := v.Pod; p != nil && p.Elastic && !p.Ending && !p.Deleted {
			return Step{Action: Delete, UID: p.UID}
		}
		return Step{}
	}
	if v.Pod != nil {
		return decidePod(*v.Pod)
	}
	s := Step{Starting: true}
	switch {
	case v.Made:
	case now.Before(v.Until) || v.Refused != nil && v.Until.IsZero():
		s.Trouble, s.Again = v.Refused, v.Until
	case now.Before(v.Rest):
		s.Trouble, s.Again = v.Died, v.Rest
	default:
		s.Action, s.Trouble = Create, v.Refused
	}
	return s
}

// decidePod is for the pod of a wanted node.
func decidePod(p Pod) Step {
	s := Step{Starting: !p.Ready || p.Ending || p.Over}
	switch {
	case !p.Elastic:
		s.Trouble = &Trouble{Reason: failedCreate, Note: "a pod has the node's name, and is no pod of the elastic set"}
	case p.Ending || p.Deleted:
	case p.Over, p.Unwanted:
		s.Action, s.UID = Delete, p.UID
	}
	if p.NotRunning != nil && p.Elastic && !p.Ending {
		s.Trouble = &Trouble{p.NotRunning.Reason, p.NotRunning.Note, p.NotRunning.Since}
	}
	return s
}

// The reasons that are not Kubernetes'.
const (
	failedCreate = "FailedCreate"
	noTemplate   = "NoTemplate"
	badTemplate  = "BadTemplate"
	lostPod      = "PodLost"
)
