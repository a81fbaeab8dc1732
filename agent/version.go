package agent

import (
	"context"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// versionWait is how long the daemon may take to serve before its version is asked for.
const versionWait = time.Minute

// findVersion finds out which Slurm the daemon is, once, when the start is over.
func (a *Agent) findVersion() {
	if !a.awaitStarted(versionWait) {
		return
	}
	said := ""
	if a.daemon.versionEnv != nil {
		ctx, cancel := context.WithTimeout(a.alive, 10*time.Second)
		defer cancel()
		said, _ = slurm.Release(ctx, a.daemon.path, a.daemon.versionEnv(a)) // without it, Debian's package counts
	}
	if v := releases.Find(os.DirFS(a.Root), a.daemon.path, said); v.Line != "" {
		a.published.installed.Store(&v)
	}
}

// awaitStarted waits until the daemon has served once, and no longer than limit. It returns false at the agent's end.
func (a *Agent) awaitStarted(limit time.Duration) bool {
	over := time.After(limit)
	for {
		next := a.published.Next()
		if a.published.Load().Started {
			return true
		}
		select {
		case <-next:
		case <-over:
			return true
		case <-a.alive.Done():
			return false
		}
	}
}
