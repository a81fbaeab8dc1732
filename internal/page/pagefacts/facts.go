// Package pagefacts carries what slurmctld's agent knows to the process that shows it to people
// (slurmlet-web), over a unix socket.
package pagefacts

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// Facts are what the page shows. Nobody changes them after they were made.
type Facts struct {
	// At is when the agent collected the facts, by its clock.
	At time.Time
	// View is what slurmctld has said, without its scheduler's figures and its shares.
	View *clusterview.View
	// Agent is slurmctld's, and Conf its configuration.
	Agent Agent
	Conf  *reconfig.Status
	// Followers are the names of the agents that have proved to have the cluster's key and wait
	// for the next configuration: those of nodes have the names of their nodes.
	Followers []string
	// FollowersUnknown: the agent could not list them.
	FollowersUnknown bool
}

// Agent is slurmctld's agent.
type Agent struct {
	Version, State, Doing, Reason string
	Since                         time.Time
	// Restarts counts slurmctld's starts after the first.
	Restarts int
}
