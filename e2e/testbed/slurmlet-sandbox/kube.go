package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

func kubeUp(f *flag.FlagSet) action {
	var o kubecluster.Options
	f.StringVar(&o.Name, "name", defaultName(), "the cluster's `name`")
	f.IntVar(&o.Nodes, "nodes", 2, "how many nodes, 1 to 16")
	f.IntVar(&o.CPUs, "cpus", 0, "a node's CPUs, 1 to 8 (default 2)")
	f.Func("image", "`file` with images that every node has: an OCI or docker archive; repeatable", func(path string) (err error) {
		path, err = filepath.Abs(path)
		o.Images = append(o.Images, path)
		return err
	})
	f.IntVar(&o.Memory, "memory", 0, "a node's memory in `MiB` (default 6144)")
	f.IntVar(&o.With, "with", defaultWith(), "the `pid` of a process with whose end the cluster ends too")
	return func(ctx context.Context, _ []string) (int, error) {
		o.Progress = progress()
		b, err := kubecluster.Up(ctx, o)
		if err != nil {
			return 0, err
		}
		defer b.Close()
		fmt.Printf("\nkubectl uses it in a shell after\n\n    eval $(bin/slurmlet-sandbox kube-env -name %s)\n\n`make kube-down` ends it.\n", o.Name)
		return 0, nil
	}
}

func kubeDown(f *flag.FlagSet) action {
	name := kubeName(f)
	return func(context.Context, []string) (int, error) {
		return did(kubecluster.Down(*name), "Kubernetes %q is down, and nothing of it is left", *name)
	}
}

func kubeEnv(f *flag.FlagSet) action {
	return withBed(f, func(_ context.Context, b *kubecluster.Bed, _ []string) (int, error) {
		own, err := os.Executable()
		if err != nil {
			return 0, fmt.Errorf("cannot find this program: %v", err)
		}
		// helm is beside it, where `make kube-up` has put it.
		fmt.Printf("export KUBECONFIG=%s PATH=%s:%s:\"$PATH\"\n", b.Kubeconfig(), b.Programs(), filepath.Dir(own))
		return 0, nil
	})
}

func kubeImport(f *flag.FlagSet) action {
	return withBed(f, func(ctx context.Context, b *kubecluster.Bed, args []string) (int, error) {
		path, err := filepath.Abs(args[0])
		if err != nil {
			return 0, err
		}
		return did(b.Import(ctx, path), "every node has the images in %s", args[0])
	})
}

func kubeExec(f *flag.FlagSet) action {
	how := streamFlags(f)
	return withBed(f, func(ctx context.Context, b *kubecluster.Bed, args []string) (int, error) {
		return attached(how, func(streams sandbox.Streams) (int, error) {
			return b.Attach(ctx, args[0], streams, args[1:]...)
		})
	})
}

func kubePower(f *flag.FlagSet) action {
	return withBed(f, func(ctx context.Context, b *kubecluster.Bed, args []string) (int, error) {
		switch args[1] {
		case "on":
			return did(b.PowerOn(ctx, args[0]), "node %s is switched on, and boots", args[0])
		case "off":
			return did(b.PowerOff(ctx, args[0]), "node %s has no power", args[0])
		}
		return 0, usage("kube-power: want on or off, not %q", args[1])
	})
}

func kubeLink(f *flag.FlagSet) action {
	return withBed(f, func(ctx context.Context, b *kubecluster.Bed, args []string) (int, error) {
		if args[1] != "up" && args[1] != "down" {
			return 0, usage("kube-link: want up or down, not %q", args[1])
		}
		return did(b.Link(ctx, args[0], args[1] == "up"), "node %s is %s", args[0], reach[args[1]])
	})
}

func kubeName(f *flag.FlagSet) *string {
	return f.String("name", defaultName(), "the cluster's `name`")
}

// withBed opens the bed for the time of do.
func withBed(f *flag.FlagSet, do func(context.Context, *kubecluster.Bed, []string) (int, error)) action {
	name := kubeName(f)
	return func(ctx context.Context, args []string) (int, error) {
		b, err := kubecluster.Open(ctx, *name)
		if err != nil {
			return 0, err
		}
		defer b.Close()
		return do(ctx, b, args)
	}
}
