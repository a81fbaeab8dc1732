package reconfig

import (
	"context"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

func (r *Reloader) slurmBuild(ctx context.Context, running bool) build {
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	var known build
	if b := r.build.Load(); b != nil {
		known = *b
	}
	if known.version == "" {
		known.version, _ = slurm.Version(ctx, r.Daemon.Path, nil) // asked again next time
	}
	if known.plugins == "" && running {
		cluster, _ := r.Client.Config(ctx)
		known.plugins = cluster["PluginDir"]
	}
	r.build.Store(&known)
	return known
}
