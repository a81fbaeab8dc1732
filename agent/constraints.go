package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// without are the controllers by which this node's container can hold no job.
func (a *Agent) without() (all []string) {
	if !a.daemon.registers {
		return nil
	}
	for _, m := range a.delegated.Missing {
		all = append(all, m.Controller)
	}
	if a.delegated.Steps == "" {
		all = []string{"cpuset", "devices", "memory"}
	}
	return all
}

// constraints are keys of cgroup.conf, the controllers that they need, and what a container without one is to get.
var constraints = []struct{ key, controller, instead string }{
	{"ConstrainCores", "cpuset", "the controller for the containers"},
	{"ConstrainDevices", "devices", nodesize.HoldDevices},
	{"ConstrainRAMSpace", "memory", "the controller for the containers"},
	{"ConstrainSwapSpace", "memory", "the controller for the containers"},
}

// feedWait is for the port's goroutine, which never waits.
const feedWait = time.Second

// unheld compares what slurmctld's cgroup.conf wants with what the nodes' agents say of their containers.
func (a *Agent) unheld(constrains []string) (all []nodesize.Mismatch) {
	ctx, cancel := context.WithTimeout(context.Background(), feedWait)
	defer cancel()
	for _, c := range constraints {
		if !slices.Contains(constrains, c.key) {
			continue
		}
		nodes, err := a.feed.Without(ctx, c.controller)
		if err != nil || len(nodes) == 0 {
			continue // at the next question
		}
		all = append(all, nodesize.Mismatch{
			Setting: c.key + "=yes", Instead: "no (cgroup.conf), or " + c.instead,
			Why: fmt.Sprintf("it cannot hold jobs on %d nodes: %s", len(nodes), firstOf(nodes)),
		})
	}
	return all
}

// mostNodes are enough for people.
const mostNodes = 10

func firstOf(nodes []string) string {
	if more := len(nodes) - mostNodes; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:mostNodes], ", "), more)
	}
	return strings.Join(nodes, ", ")
}
