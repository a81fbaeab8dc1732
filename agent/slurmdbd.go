package agent

import (
	"context"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
)

// openDatabase has the files of slurmdbd copied for it.
func (a *Agent) openDatabase() error {
	a.database = slurmdbd.NewDatabase(slurmdbd.Options{
		ConfDir: a.Config.ConfDir, RunDir: a.Config.RunDir, UID: a.daemon.uid(), GID: a.daemon.gid(), Done: a.over, Log: a.log,
		Changed: func(restart bool) { a.post(lifecycle.FilesChanged{Restart: restart}) },
	})
	return a.database.Open()
}

func (a *Agent) reachDatabase(ctx context.Context) error { return a.database.Reach(ctx) }
func (a *Agent) confirmDBD(ctx context.Context) error    { return a.database.Confirm(ctx) }

// registration is that of slurmctld's cluster with slurmdbd.
func (a *Agent) registration() *slurmdbd.Registration {
	return &slurmdbd.Registration{
		Controller: func() (int, <-chan struct{}) {
			news := a.published.Next()
			if s := a.status.Load(); s.State == lifecycle.Ready && s.Main != nil {
				return s.Main.PID, news
			}
			return 0, news
		},
		Live: a.reloader.Live, Client: a.client, Reconfigure: a.reloader.ReconfigureAgain, Done: a.over, Log: a.log,
	}
}
