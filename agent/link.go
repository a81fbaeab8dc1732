package agent

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/link/podnames"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/login/gateway"
	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// newProver proves to slurmctld's agent that this one has the cluster's key.
func newProver(keys *authkeys.Keys) *proof.Client { return &proof.Client{Keys: keys.Ring} }

// newFollower follows the configuration that the daemon fetches from slurmctld.
func (a *Agent) newFollower() *confsync.Follower {
	name := ""
	if a.daemon.registers {
		name = a.Config.NodeName
	}
	return confsync.NewFollower(confsync.FollowerOptions{
		Prover: newProver(a.keys), Node: name, Without: a.slurmdNode.Without(),
		Slurmctld: a.Config.Slurmctld, AgentPort: a.Config.AgentPort,
		Program: a.daemon.program, Copy: filepath.Join(a.Root, a.daemon.confCopy(a.Config)),
		Done: a.alive.Done(), Log: a.log,
		Ready:   func() bool { return a.published.Load().State == supervisor.Ready },
		Restart: func() { a.post(supervisor.Outdated{}) },
		Lost:    func() { a.post(node.SlurmctldLost{}) },
	})
}

// openNames prepares to follow slurmlet's controller.
func (a *Agent) openNames() (err error) {
	a.names, err = podnames.Open(podnames.Options{
		Root: a.Root, Address: a.Config.Peers, Dir: a.Config.PeersDir, Slurmctld: a.Config.Slurmctld,
		Alone: !a.daemon.registers && !a.daemon.hosts, ConfFile: a.confFile(),
		ElasticNodes: a.ctld.ElasticNodeNames, Published: a.published.Next,
		Moved:    func() { a.post(supervisor.SlurmctldMoved{}) },
		TakeSelf: a.takeSelf, Changed: a.ctld.PodsChanged, Log: a.log,
	})
	a.ctld.Follow(a.names.Client())
	return err
}

// openQueue prepares what Kubernetes' pods in Slurm's queue need of the role: holds of a node, or a gateway.
func (a *Agent) openQueue() error {
	if len(a.Config.GatewayUsers) > 0 {
		a.userSessions.OpenGateway(gateway.Options{
			Users: a.Config.GatewayUsers, LeastUID: a.Config.GatewayLeastUID, Controller: a.names.Client(),
			Slurm: slurm.Scontrol{Path: a.daemon.programs["scontrol"], Env: a.daemon.scontrolEnv(), Turn: a.Turn}, Log: a.log,
		})
	}
	if a.Config.Holds {
		return a.slurmdNode.OpenHolds(a.Config.RunDir, a.names.Client())
	}
	return nil
}

// confFile is the configuration that this container's daemon has; empty if it has none.
func (a *Agent) confFile() string {
	switch {
	case a.daemon.reloads:
		return reconfig.LivePath(a.Config.RunDir)
	case a.daemon.confCopy != nil:
		return filepath.Join(a.Root, a.daemon.confCopy(a.Config), "slurm.conf")
	case a.database != nil:
		return filepath.Join(a.database.Dir(), "slurmdbd.conf")
	}
	return filepath.Join(a.Config.ConfDir, "slurm.conf")
}

// shorter is how much sooner than the grace period a deadline must be to count: Kubernetes tells whole
// seconds, and SIGTERM comes some time after the deletion.
const shorter = 3 * time.Second

// takeSelf takes what Kubernetes knows of this pod. The time that a deletion grants counts where it is less than the pod's
// grace period.
func (a *Agent) takeSelf(self, before wire.Self) {
	const source = "the pod's deletion in Kubernetes"
	a.slurmdNode.Take(self)
	now, grace, granted := time.Now(), a.Config.Grace, time.Duration(self.GraceSeconds)*time.Second
	switch at := self.Deadline; {
	case at.IsZero() || at.Equal(before.Deadline) && self.GraceSeconds == before.GraceSeconds:
	case granted > 0 && granted < grace:
		a.log(slog.LevelInfo, "Kubernetes deletes the pod before its grace period is over", slog.Duration("granted", granted))
		a.post(deadlines.DeadlineSet{At: now, Grace: granted, Source: source})
	case granted == 0 && at.Before(now.Add(grace-shorter)):
		a.log(slog.LevelInfo, "Kubernetes deletes the pod before its grace period is over", slog.Time("deadline", at))
		a.post(deadlines.DeadlineSet{At: now, Deadline: at, Source: source})
	}
}
