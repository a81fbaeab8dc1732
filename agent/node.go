package agent

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/link/merge"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
)

// openNode makes the node that slurmd registers.
func (a *Agent) openNode() error {
	asker := &ask.Asker{Prover: newProver(a.keys), Slurmctld: a.Config.Slurmctld, Log: a.log}
	if a.Config.Merge {
		asker.AgentPort = a.Config.AgentPort
	}
	node, err := slurmd.New(slurmd.Options{
		Settings: a.Config.nodeSettings(a.Root, a.keys != nil), Root: a.Root, Slurm: a.client,
		Changes: recordChanges{asker, a.client, a.Config.NodeName},
		Post:    a.post, Inquire: a.inquire, Done: a.alive.Done(), State: a.state, Published: &a.published.Bell,
		WriteStatus: func(w io.Writer) error { return a.counted().WriteMetrics(w) },
		Main:        a.main.Process, Daemons: a.main.PIDs, Helpers: a.helperPIDs, NewExtra: a.newExtra,
		SackdSpeaks: func() bool { return a.kiosk.Sackd() != nil }, StartSackd: a.kiosk.StartSackd,
		Socket: a.kiosk.Socket, Crowded: a.kiosk.Crowded,
		Reach:  func(ctx context.Context) error { return a.names.Reach(ctx, a.Config.Slurmctld) },
		Spread: func() time.Duration { return a.follower.Spread() }, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.slurmdNode = node
	found := node.Found()
	a.life.Allocation, a.life.Unstartable = &found.Allocation, found.Unstartable
	a.life.Inherits, a.life.Fresh = found.Inherits, found.Fresh
	node.WatchCgroups()
	return nil
}

// nodeSettings are what the variables say of the node.
func (c Config) nodeSettings(root string, hasKeys bool) slurmd.Settings {
	return slurmd.Settings{
		Name: c.NodeName, Machine: c.Machine, Elastic: c.Elastic, SizeOptions: c.sizing(root), GresChoice: c.GresChoice,
		CgroupOptions: cgroups.Options{
			Mode: c.CgroupMode, OOMGroup: c.OOMGroup, OOMHeadroom: c.OOMHeadroom, Reserve: c.Reserve, DeadSteps: c.DeadSteps,
		},
		JobMetrics: c.JobMetrics, JobSignal: c.JobSignal, Leftovers: c.Leftovers, Places: c.places(),
		GresConf: gresConf(c), Containers: c.JobContainers, HasKeys: hasKeys,
	}
}

// newExtra is the mark of the next slurmd, empty where SLURMLET_DAEMON_ARGS has an Extra of the site's.
func (a *Agent) newExtra() string {
	if slices.ContainsFunc(a.Config.DaemonArgs, func(arg string) bool { return strings.HasPrefix(arg, "--extra") }) {
		return ""
	}
	return slurm.Mark(time.Now(), a.Config.Peers != "")
}

// state is the agent's, and when it came into it.
func (a *Agent) state() (supervisor.Phase, time.Time) {
	s := a.published.Load()
	return s.State, s.Since
}

// helperPIDs are the services beside slurmd.
func (a *Agent) helperPIDs() (pids []int) {
	for _, one := range a.helpers.Statuses() {
		if one.PID != 0 {
			pids = append(pids, one.PID)
		}
	}
	return pids
}

// recordChanges has slurmctld change the node's record.
type recordChanges struct {
	asker *ask.Asker
	slurm *slurm.Questions
	node  string
}

// Make has slurmctld's agent make a change, or makes it itself where that agent is away.
func (r recordChanges) Make(ctx context.Context, verb node.Verb, reason, conf string) error {
	c := ask.Change{Node: r.node, Reason: reason}
	var direct func(context.Context) error
	switch verb {
	case node.DeleteNode:
		return r.remove(ctx, ask.Change{Verb: ask.Delete, Node: r.node, Conf: conf})
	case node.RenewNode:
		return r.remove(ctx, ask.Change{Verb: ask.Renew, Node: r.node, Conf: conf})
	case node.DrainNode:
		c.Verb = ask.Drain
		direct = func(ctx context.Context) error { return r.slurm.DrainNode(ctx, r.node, reason) }
	case node.ResumeNode:
		c.Verb = ask.Resume
		direct = func(ctx context.Context) error { return r.slurm.ReinstateNode(ctx, r.node) }
	case node.FailNode:
		c.Verb = ask.Fail
		direct = func(ctx context.Context) error { return r.slurm.FailNode(ctx, r.node, reason) }
	case node.PowerDownNode:
		c.Verb = ask.PowerDown
		direct = func(ctx context.Context) error { return r.slurm.PowerDownNode(ctx, r.node, reason) }
	case node.PowerOffNode:
		c.Verb = ask.PowerOff
		direct = func(ctx context.Context) error { return r.slurm.PowerOffNode(ctx, r.node, reason) }
	default:
		panic(fmt.Sprintf("no change of a record: %d", verb))
	}
	return r.asker.Ask(ctx, c, direct)
}

// remove has the record deleted, or kept if somebody names the node. Where slurmctld's agent is not asked, this agent asks
// slurmctld who names it.
func (r recordChanges) remove(ctx context.Context, c ask.Change) error {
	return r.asker.Ask(ctx, c, func(ctx context.Context) error { return merge.Make(ctx, r.slurm, []ask.Change{c})[c] })
}

// Recount has slurmctld's agent have slurmctld count the allocated CPUs of all nodes.
func (r recordChanges) Recount(ctx context.Context, direct func(context.Context) error) error {
	return r.asker.Ask(ctx, ask.Change{Verb: ask.Recount, Node: r.node}, direct)
}
