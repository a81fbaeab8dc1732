package agent

import (
	"context"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
)

// openDatabase has the files of slurmdbd copied for it.
func (a *Agent) openDatabase() error {
	a.database = slurmdbd.NewDatabase(slurmdbd.Options{
		ConfDir: a.Config.ConfDir, RunDir: a.Config.RunDir, UID: a.daemon.uid(), GID: a.daemon.gid(), Done: a.over, Log: a.log,
		Changed: func(restart bool) { a.post(supervisor.FilesChanged{Restart: restart}) },
	})
	return a.database.Open()
}

func (a *Agent) reachDatabase(ctx context.Context) error { return a.database.Reach(ctx) }
func (a *Agent) confirmDBD(ctx context.Context) error    { return a.database.Confirm(ctx) }
