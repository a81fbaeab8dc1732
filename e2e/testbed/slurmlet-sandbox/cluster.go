package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

func up(f *flag.FlagSet) action {
	var o sandbox.Options
	versions := strings.Join(parts.Versions(), " or ")
	f.StringVar(&o.Name, "name", defaultName(), "the sandbox's `name`")
	f.StringVar(&o.Slurm, "slurm", parts.Newest(), "Slurm's `version`: "+versions)
	f.StringVar(&o.Agent, "agent", "", "`path` of slurmlet (default: beside this program)")
	f.IntVar(&o.CPUs, "cpus", 0, "the guest's CPUs, 1 to 8 (default SLURMLET_SANDBOX_CPUS or 3)")
	f.IntVar(&o.Memory, "memory", 4096, "the guest's memory in `MiB`")
	f.BoolVar(&o.NoLimits, "no-limits", false, "pods without limits, which run natively on every host, and jobs without cgroups")
	f.IntVar(&o.With, "with", defaultWith(), "the `pid` of a process with whose end the sandbox ends too")
	nodes := f.Int("nodes", 2, "how many nodes")
	empty := f.Bool("empty", false, "make no pods")
	return func(ctx context.Context, _ []string) (int, error) {
		if *nodes < 0 || *nodes > sandbox.MaxNodes {
			return 0, usage("up: -nodes %d: want 0 to %d", *nodes, sandbox.MaxNodes)
		}
		o.Progress = progress()
		s, err := sandbox.Up(ctx, o)
		if err != nil {
			return 0, err
		}
		defer s.Close()
		if *empty {
			return did(nil, "sandbox %q is up, without pods", o.Name)
		}
		if err := cluster(ctx, s, o.Name, *nodes); err != nil {
			return 0, fmt.Errorf("%w\nthe sandbox is still up to be looked at; down removes it", err)
		}
		return 0, nil
	}
}

func down(f *flag.FlagSet) action {
	name, grace := nameFlag(f), f.Duration("grace", 0, "`time` that the pods get to stop in order")
	return func(ctx context.Context, _ []string) (int, error) {
		if *grace > 0 {
			_, err := with(ctx, *name, func(s *sandbox.Sandbox) (int, error) { return 0, s.Shutdown(ctx, *grace) })
			if err != nil {
				return 0, err
			}
		}
		return did(sandbox.Down(*name), "sandbox %q is down, and nothing of it is left", *name)
	}
}

func scale(f *flag.FlagSet) action {
	name, grace := nameFlag(f), f.Duration("grace", 30*time.Second, "`time` that a deleted node gets")
	return func(ctx context.Context, args []string) (int, error) {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 0 || n > sandbox.MaxNodes {
			return 0, usage("scale: %q: want a number of nodes, 0 to %d", args[0], sandbox.MaxNodes)
		}
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			return did(s.Scale(ctx, n, *grace, progress()), "the cluster has %d nodes", n)
		})
	}
}
