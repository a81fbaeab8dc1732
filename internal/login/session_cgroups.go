package login

import (
	"fmt"
	"log/slog"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// Cgroups say whether sessions have cgroups of their own.
type Cgroups struct {
	// Wanted: they have them where they can. Required: the container ends where they cannot.
	Wanted, Required bool
	// Advice says how a site lets a container have cgroups.
	Advice string
}

// sessionCgroups are those of the sessions. Nil ones are none.
type sessionCgroups struct {
	fs        cgroup.FS
	delegated cgroup.Delegation
	log       func(slog.Level, string, ...slog.Attr)
}

// delegate gives sessions cgroups, and clears the container's memory.oom.group: with it, the kernel ends all sessions, and
// the daemons, when one user's processes reach the pod's memory limit.
func (o Options) delegate() (*sessionCgroups, error) {
	if !o.Cgroups.Wanted {
		return nil, nil
	}
	machine := cgroup.NewFS(o.Root)
	delegated, err := machine.DelegateSessions()
	switch {
	case err != nil && o.Cgroups.Required:
		return nil, &exitcode.Fault{
			Code: exitcode.Cgroup,
			Err:  fmt.Errorf("SLURMLET_CGROUP=require: sessions cannot have cgroups: %w", err),
		}
	case err != nil:
		o.Log(slog.LevelInfo,
			"sessions share a cgroup: one user's processes that reach the pod's memory limit end all of them. To "+
				"change it, "+o.Cgroups.Advice, slog.Any("error", err))
		return nil, nil
	}
	o.Log(slog.LevelInfo, "each session has a cgroup, and the kernel kills one process at a time for want of memory",
		slog.String("cgroup", string(delegated.Access)))
	return &sessionCgroups{machine, delegated, o.Log}, nil
}

// begin puts a session's processes into a cgroup.
func (c *sessionCgroups) begin(pid int) {
	if c == nil {
		return
	}
	if err := c.fs.BeginSession(c.delegated, pid); err != nil {
		c.log(slog.LevelWarn, err.Error(), slog.Int("session", pid))
	}
}

// end removes the cgroups of sessions that have ended.
func (c *sessionCgroups) end() {
	if c != nil {
		c.fs.EndSessions(c.delegated)
	}
}
