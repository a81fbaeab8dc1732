// Package lifecycle is a container's life, from its start to its end: an event changes the state and
// gives actions. It puts machines together, each of which is a package with a state of its own:
//
//   - supervisor: the main process, whatever its role;
//   - deadlines: the time that is left on the way down;
//   - node: slurmd's node, its record and its jobs;
//   - conf: slurmctld's configuration;
//   - sessions: the users of a login pod.
//
// What the main process does comes here, because it means something to several of them. All is pure:
// agent.go turns the world into events, and actions into the world. `go test
// ./internal/lifecycle/...` plays stories with the whole.
package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Plan has what does not change in a container's life: its role and its settings.
type Plan struct {
	Role
	supervisor.Plan
	NodePlan node.Plan
	// Deadlines is that of SLURMLET_GRACE_PERIOD, Lead how long before their requeue jobs get a signal.
	Deadlines deadlines.Deadlines
	Lead      time.Duration
}

// Role says which machines a container has beside the supervisor.
type Role struct {
	// Registers: slurmd has a node. Hosts: users have sessions here. Reloads: the configuration is the agent's
	// to put in place (slurmctld).
	Registers, Hosts, Reloads bool
	// Converts: the daemon may convert a database before it listens, and any signal would end it.
	Converts bool
}

// Supervisor, Node and TimeLeft are the states of the machines that have their name.
type (
	Supervisor = supervisor.State
	Node       = node.State
)

// State is the whole state that Step works on: a value without clock or I/O. Methods call it l.
type State struct {
	Role
	Supervisor
	Node
	// Conf is slurmctld's configuration; other roles have none.
	Conf conf.State
	// crashes counts those of slurmctld in a row.
	crashes int
	// listens: Main takes connections, and converts nothing any more. unread is how it learns of edits then.
	listens bool
	unread  signal
}

// New is the state before the first event.
func New(p Plan, a nodesize.Allocation) State {
	s := State{Role: p.Role}
	s.Supervisor = Supervisor{
		Plan: p.Plan, TimeLeft: deadlines.State{Deadlines: p.Deadlines, Lead: p.Lead},
		Phase: supervisor.Starting, Activity: supervisor.Idle,
	}
	s.Node = Node{Plan: p.NodePlan, Allocation: &a}
	return s
}
