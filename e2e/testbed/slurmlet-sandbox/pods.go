package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

func status(f *flag.FlagSet) action {
	name, output := nameFlag(f), f.String("o", "text", "`format`: text or json")
	return func(ctx context.Context, _ []string) (int, error) {
		if *output != "text" && *output != "json" {
			return 0, usage("status: -o %s: want text or json", *output)
		}
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			pods, err := s.Status(ctx)
			if err != nil {
				return 0, err
			}
			if *output == "json" {
				return 0, json.NewEncoder(os.Stdout).Encode(pods)
			}
			return 0, table(pods)
		})
	}
}

func table(pods []sandbox.PodStatus) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POD\tROLE\tSLURM\tSTATE\tEXIT\tRESTARTS\tIP\tAGE")
	for _, p := range pods {
		exit := "-"
		if p.State != "Running" {
			exit = fmt.Sprint(p.ExitCode)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%v\n", p.Name, p.Role, p.Image, p.State, exit, p.Restarts, p.IP, time.Since(p.Started).Round(time.Second))
	}
	return w.Flush()
}

func logs(f *flag.FlagSet) action {
	name, follow := nameFlag(f), f.Bool("f", false, "go on until the pod is deleted")
	return func(ctx context.Context, args []string) (int, error) {
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			if *follow {
				return 0, s.Follow(ctx, args[0], os.Stdout)
			}
			text, err := s.Logs(ctx, args[0])
			fmt.Print(text)
			return 0, err
		})
	}
}

func create(f *flag.FlagSet) action {
	name, moment := nameFlag(f), f.Duration("watch", time.Second, "`time` that a program other than an agent is watched for its end")
	return func(ctx context.Context, args []string) (int, error) {
		if len(args) == 1 {
			return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) { return 0, createAgain(ctx, s, args[0], *moment) })
		}
		var spec sandbox.PodSpec
		in := json.NewDecoder(os.Stdin)
		in.DisallowUnknownFields()
		if err := in.Decode(&spec); err != nil {
			return 0, usage("create: cannot read the pod's spec: %v", err)
		}
		if err := spec.Validate(); err != nil {
			return 0, usage("create: %v", err)
		}
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) { return 0, createPod(ctx, s, spec, *moment) })
	}
}

// createAgain makes a pod as up makes it.
func createAgain(ctx context.Context, s *sandbox.Sandbox, name string, moment time.Duration) error {
	c, err := standard(s)
	if err != nil {
		return err
	}
	all := podsOf(c, sandbox.MaxNodes)
	i := slices.IndexFunc(all, func(p sandbox.PodSpec) bool { return p.Name == name })
	if i < 0 {
		return usage("create: up makes %s, and node-0 to node-%d, not %s", podNames(podsOf(c, 0)), sandbox.MaxNodes-1, name)
	}
	return createPod(ctx, s, all[i], moment)
}

// createPod makes a pod, and tells what has become of it.
func createPod(ctx context.Context, s *sandbox.Sandbox, spec sandbox.PodSpec, moment time.Duration) error {
	if err := s.Create(ctx, spec); err != nil {
		return err
	}
	now, err := s.Became(ctx, spec.Name, moment)
	if err != nil {
		return fmt.Errorf("pod %s is created, but %w", spec.Name, err)
	}
	fmt.Printf("pod %s is created, and %s\n", spec.Name, now)
	return nil
}

func remove(f *flag.FlagSet) action {
	name, grace := nameFlag(f), f.Duration("grace", 30*time.Second, "`time` between SIGTERM and SIGKILL")
	return func(ctx context.Context, args []string) (int, error) {
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			last, err := s.End(ctx, args[0], *grace)
			return did(err, "pod %s ended with exit status %d, and is deleted", args[0], last.ExitCode)
		})
	}
}

func restart(f *flag.FlagSet) action {
	name, grace := nameFlag(f), f.Duration("grace", 30*time.Second, "`time` between SIGTERM and SIGKILL")
	return func(ctx context.Context, args []string) (int, error) {
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			return did(s.Restart(ctx, args[0], *grace), "the container of pod %s ended, and the next one runs", args[0])
		})
	}
}

func resize(f *flag.FlagSet) action {
	name, cpu := nameFlag(f), f.Float64("cpu", 0, "how many `CPUs`")
	memory := f.Int64("memory", 0, "how many `MiB`")
	return func(ctx context.Context, args []string) (int, error) {
		if *cpu <= 0 || *memory <= 0 {
			return 0, usage("resize: want -cpu and -memory, both more than 0")
		}
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			return did(s.Resize(ctx, args[0], *cpu, *memory<<20), "pod %s has %v CPUs and %d MiB now", args[0], *cpu, *memory)
		})
	}
}

// reach is where a link leaves a pod or a node.
var reach = map[string]string{"up": "on the network again", "down": "cut off the network"}

func link(f *flag.FlagSet) action {
	name := nameFlag(f)
	return func(ctx context.Context, args []string) (int, error) {
		if args[1] != "up" && args[1] != "down" {
			return 0, usage("link: want up or down, not %q", args[1])
		}
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			return did(s.Link(ctx, args[0], args[1] == "up"), "pod %s is %s", args[0], reach[args[1]])
		})
	}
}

func kill(f *flag.FlagSet) action {
	name := nameFlag(f)
	return func(ctx context.Context, args []string) (int, error) {
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			return did(s.Kill(ctx, args[0], args[1]), "signal %s is sent to PID 1 of pod %s", args[1], args[0])
		})
	}
}
