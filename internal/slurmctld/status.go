package slurmctld

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods/kept"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
)

// Status is what the agent of slurmctld's pod publishes beside what all agents do. All is nil for other roles, and Records,
// Elastic and Accounts where there is nothing to say.
type Status struct {
	// Losses are the lines in which slurmctld has told of lost jobs, LostJobs what its crashes have lost.
	Losses   *LossStatus        `json:"losses,omitempty"`
	LostJobs *savedstate.Status `json:"lost_jobs,omitempty"`
	// HeldJobs are the last jobs that slurmctld holds because it does not know their user.
	HeldJobs []string `json:"nobodys_jobs,omitempty"`
	// Records are slurmctld's node records, beside the cluster's pods.
	Records *gonepods.Status `json:"records,omitempty"`
	// KeptRecords are node records that stay without a pod, because somebody names the nodes.
	KeptRecords *kept.Status `json:"kept_records,omitempty"`
	// Elastic are the sets of nodes that Slurm starts and ends.
	Elastic *elastic.Status `json:"elastic,omitempty"`
	// Accounts are how slurmdbd and SLURMLET_ACCOUNTS stand.
	Accounts *accounts.Status `json:"accounts,omitempty"`
}

// Rows writes the status for people.
func (s Status) Rows(row func(name, format string, args ...any)) {
	if s.Records != nil {
		s.Records.Rows(row)
	}
	if s.KeptRecords != nil {
		s.KeptRecords.Rows(row)
	}
	if s.Elastic != nil {
		s.Elastic.Rows(row)
	}
	if s.Accounts != nil {
		s.Accounts.Rows(row)
	}
	if len(s.HeldJobs) > 0 {
		row("Held", "jobs %s: %s (scancel)", strings.Join(s.HeldJobs, ","), WhyHeld)
	}
	if s.LostJobs != nil {
		s.LostJobs.Rows(row)
	}
}

// Status returns the present one. It asks nobody.
func (p *Pod) Status() (s Status) {
	if p == nil {
		return s
	}
	return Status{
		Losses: cmp.Or(p.losses.Load(), &LossStatus{}), LostJobs: p.saved.Status(), HeldJobs: p.heldJobs.all(),
		Records: p.nodeRecords.Status(), KeptRecords: p.kept.Status(), Elastic: p.elasticNodes.Status(),
		Accounts: p.accountKeeper.Status(),
	}
}

// Conf returns the status of slurmctld's configuration in a state, nil for other roles.
func (p *Pod) Conf(next lifecycle.State) *reconfig.Status {
	if p == nil {
		return nil
	}
	return p.reloader.Status(next)
}

// CompleteConf adds what has become of the nodes since Conf, which may return nil.
func (p *Pod) CompleteConf(s *reconfig.Status) *reconfig.Status {
	if s == nil {
		return nil
	}
	return p.reloader.Complete(*s)
}

// ReportConf logs what becomes of an edit. now is Conf's word on the next state.
func (p *Pod) ReportConf(next lifecycle.State, now *reconfig.Status) {
	if p != nil {
		p.reloader.Report(p.Alive, next, now)
	}
}

// constraints are keys of cgroup.conf, the controllers that they need, and what a container without one is to get.
var constraints = []struct{ key, controller, instead string }{
	{"ConstrainCores", "cpuset", "the controller for the containers"},
	{"ConstrainDevices", "devices", slurm.HoldDevices},
	{"ConstrainRAMSpace", "memory", "the controller for the containers"},
	{"ConstrainSwapSpace", "memory", "the controller for the containers"},
}

// feedWait is for the port's goroutine, which never waits.
const feedWait = time.Second

// Misfits compares what slurmctld's cgroup.conf wants with what the nodes' agents say of their containers. constrains are
// the keys of cgroup.conf that are set.
func (p *Pod) Misfits(constrains []string) (all []slurm.Mismatch) {
	ctx, cancel := context.WithTimeout(context.Background(), feedWait)
	defer cancel()
	for _, c := range constraints {
		if !slices.Contains(constrains, c.key) {
			continue
		}
		nodes, err := p.feed.Without(ctx, c.controller)
		if err != nil || len(nodes) == 0 {
			continue // at the next question
		}
		all = append(all, slurm.Mismatch{
			Setting: c.key + "=yes", Instead: "no (cgroup.conf), or " + c.instead,
			Why: fmt.Sprintf("it cannot hold jobs on %d nodes: %s", len(nodes), firstOf(nodes)),
		})
	}
	return all
}

// mostNodes bounds how many nodes a text names.
const mostNodes = 10

func firstOf(nodes []string) string {
	if more := len(nodes) - mostNodes; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:mostNodes], ", "), more)
	}
	return strings.Join(nodes, ", ")
}
