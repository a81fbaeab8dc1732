// Steps lets many job steps come and go on one node, and shows what is left of
// them in its agent:
//
//	go run ./e2e/figures/steps [-steps 100000] [-run 200] [-slurm 26.05] [-slurmlet bin/slurmlet]
//
// The node is a small pod (native.Node) with real daemons, whose cgroup is a
// real cgroup v2, with or without controllers. Some steps are run by srun. slurmd
// makes no cgroups where there are no controllers, so the cgroups of the many are
// made and removed here, as slurmstepd does it, as fast as it goes. It fails
// unless the agent has as many watches and file descriptors in the end as at the
// start, and is still Ready.
package main

import (
	"context"
	"errors"
	"flag"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	Slurmlet string // absolute path
	Root     string // a root file system with Slurm
	Cgroup   string // the node's
	Steps    int    // how many have their cgroups made here
	Run      int    // how many srun runs
}

func main() {
	var s settings
	version := flag.String("slurm", parts.Newest(), "`version` of Slurm")
	flag.StringVar(&s.Slurmlet, "slurmlet", "bin/slurmlet", "the agent's `binary`")
	flag.IntVar(&s.Steps, "steps", 100_000, "how many `steps` come and go as cgroups")
	flag.IntVar(&s.Run, "run", 200, "how many `steps` srun runs")
	flag.Parse()
	native.Main(func(ctx context.Context) error { return outside(ctx, s, *version) }, inside)
}

func outside(ctx context.Context, s settings, version string) (err error) {
	if s.Root, err = parts.Root(ctx, version, native.Progress); err != nil {
		return err
	}
	if s.Slurmlet, err = native.FindSlurmlet(s.Slurmlet); err != nil {
		return err
	}
	if s.Cgroup, err = makeCgroup(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(s.Cgroup)) }()
	return native.Enter(ctx, s)
}

func inside(s settings) (err error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 1, SlurmConf: slurmConf})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return (&trial{Cluster: c, node: c.Nodes[0], settings: s}).run()
}
