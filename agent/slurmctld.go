package agent

import (
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// newSlurmctld makes what only slurmctld's pod has.
func (a *Agent) newSlurmctld(scontrol slurm.Scontrol) *slurmctld.Pod {
	return slurmctld.New(slurmctld.Options{
		Settings: a.Config.Settings, Root: a.Root, RunDir: a.Config.RunDir, GresConf: gresConf(a.Config), SlurmUser: a.Config.SlurmUser,
		UID: a.daemon.uid(), GID: a.daemon.gid(), Began: a.began, HasController: a.Config.Peers != "", Upgrade: a.Config.Upgrade,
		Client: a.client, Slurm: scontrol, Table: a.Table, CopyKeys: a.keys.Take, FlushOutput: a.main.Flush,
		Life: a.ofSlurmctld, Published: a.published.Next, Post: a.post, SetsChanged: func() { a.names.Reserve() },
		Alive: a.alive, Done: a.alive.Done(), Log: a.log,
	})
}

// ofSlurmctld returns what was published of slurmctld, and nothing before the first status.
func (a *Agent) ofSlurmctld() (l slurmctld.Life) {
	s := a.published.Load()
	if s == nil {
		return l
	}
	l.Phase, l.Restarts, l.Started = s.State, s.Restarts, s.Started
	if s.Main != nil {
		l.PID = s.Main.PID
	}
	if s.Conf != nil {
		l.Conf = s.Conf.Live
	}
	return l
}

// openSlurmctld finds what slurmctld can be started with.
func (a *Agent) openSlurmctld() {
	good, now := a.ctld.Open(reconfig.Daemon{Path: a.daemon.path, Env: a.daemon.environ(a), Credential: a.daemon.credential})
	a.life.Conf.Good, a.life.Conf.Next = good, &now
}
