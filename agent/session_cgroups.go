package agent

import (
	"fmt"
	"log/slog"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
)

// sessionCgroups are told of the sessions of a login pod that have cgroups; nil where they have none.
type sessionCgroups struct{ begin, end func(pid int) }

// delegateSessions gives each session of a login pod a cgroup, and clears the container's memory.oom.group: with it, the
// kernel ends all sessions, and the daemons, when one user's processes reach the pod's memory limit.
func (a *Agent) delegateSessions() error {
	if !a.daemon.hosts || a.Config.CgroupMode == cgroups.Off {
		return nil
	}
	machine := cgroup.NewFS(a.Root)
	delegated, err := machine.DelegateSessions()
	switch {
	case err != nil && a.Config.CgroupMode == cgroups.Require:
		return &Fault{Code: ExitCgroup, Err: fmt.Errorf("SLURMLET_CGROUP=require: sessions cannot have cgroups: %w", err)}
	case err != nil:
		a.log(slog.LevelInfo, "sessions share a cgroup: one user's processes that reach the pod's memory limit end all of them. To change it, "+cgroups.OpenTree, slog.Any("error", err))
		return nil
	}
	a.log(slog.LevelInfo, "each session has a cgroup, and the kernel kills one process at a time for want of memory", slog.String("cgroup", string(delegated.Access)))
	a.sessionCgroups.begin = func(pid int) {
		if err := machine.BeginSession(delegated, pid); err != nil {
			a.log(slog.LevelWarn, err.Error(), slog.Int("session", pid))
		}
	}
	a.sessionCgroups.end = func(int) { machine.EndSessions(delegated) }
	return nil
}
