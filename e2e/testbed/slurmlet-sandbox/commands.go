package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// usageError is the caller's mistake; its text names what is allowed.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// command is one of the program's. prepare declares its flags and returns what
// is to be done with the arguments that are left.
type command struct {
	name, arguments, what string
	prepare               func(f *flag.FlagSet) action
}

type action func(ctx context.Context, args []string) (code int, err error)

var commands = []command{
	{"up", "", "make the cluster: slurmctld, nodes and a login pod", up},
	{"down", "", "end the cluster and remove everything of it", down},
	{"status", "", "show the pods", status},
	{"exec", "POD COMMAND…", "run a command in a pod", execute},
	{"dial", "POD:PORT", "connect standard input and output to a pod's port", dial},
	{"logs", "POD", "show what a pod has written", logs},
	{"scale", "N", "make or delete nodes until there are N", scale},
	{"create", "[POD]", "make POD as up does, or a pod from a JSON spec on standard input, and say what becomes of it;\n  in the spec, addCapabilities adds to containerd's default set, and capabilities replaces it", create},
	{"delete", "POD", "end a pod as a kubelet does", remove},
	{"restart", "POD", "end a pod's container and start the next", restart},
	{"resize", "POD", "change a pod's limits in place", resize},
	{"link", "POD up|down", "cut a pod off the network, or connect it again", link},
	{"kill", "POD SIGNAL", "send a signal to a pod's PID 1", kill},
	{"install", "", "download and build what sandboxes are made of", install},
	{"shell", "COMMAND…", "run a command beside the pods, to look at the sandbox itself", shell},
	{"kube-up", "", "make a Kubernetes cluster", kubeUp},
	{"kube-down", "", "end the Kubernetes cluster and remove everything of it", kubeDown},
	{"kube-env", "", "print what a shell needs for kubectl: eval $(slurmlet-sandbox kube-env)", kubeEnv},
	{"kube-import", "FILE", "give every node the images in an archive", kubeImport},
	{"kube-exec", "NODE COMMAND…", "run a command on a node", kubeExec},
	{"kube-power", "NODE on|off", "cut a node's power, or switch it on again", kubePower},
	{"kube-link", "NODE up|down", "cut a node off the network, or connect it again", kubeLink},
}

func dispatch(ctx context.Context, args []string) (int, error) {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		help(os.Stdout)
		return 0, nil
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:])
		}
	}
	return 0, usage("no command %q; there are: %s", args[0], names())
}

func (c command) run(ctx context.Context, args []string) (int, error) {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	do := c.prepare(f)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		c.help(os.Stdout, f)
		return 0, err
	} else if err != nil {
		return 0, usage("%s: %v; allowed: %s", c.name, err, flags(f))
	}
	if err := c.check(f.Args()); err != nil {
		return 0, err
	}
	return do(ctx, f.Args())
}

func (c command) check(args []string) error {
	want := strings.Fields(c.arguments)
	open, optional := strings.HasSuffix(c.arguments, "…"), strings.HasPrefix(c.arguments, "[")
	if len(args) == len(want) || open && len(args) > len(want) || optional && len(args) == 0 {
		return nil
	}
	if c.arguments == "" {
		return usage("%s: takes no arguments, got: %s", c.name, strings.Join(args, " "))
	}
	return usage("%s: want %s after the flags, got %d arguments", c.name, c.arguments, len(args))
}

func (c command) help(w io.Writer, f *flag.FlagSet) {
	fmt.Fprintf(w, "slurmlet-sandbox %s [flags] %s\n  %s\n", c.name, c.arguments, c.what)
	f.SetOutput(w)
	f.PrintDefaults()
}

func help(w io.Writer) {
	fmt.Fprintf(w, "slurmlet-sandbox: a Slurm cluster in local pods\n\n")
	for _, c := range commands {
		what, _, _ := strings.Cut(c.what, ";\n") // what follows is shown with the flags
		fmt.Fprintf(w, "  %-11s %-14s %s\n", c.name, c.arguments, what)
	}
	fmt.Fprintf(w, "\nslurmlet-sandbox COMMAND -h shows a command's flags.\n")
}

func names() string {
	var out []string
	for _, c := range commands {
		out = append(out, c.name)
	}
	return strings.Join(out, " ")
}

func flags(f *flag.FlagSet) string {
	var out []string
	f.VisitAll(func(one *flag.Flag) { out = append(out, "-"+one.Name) })
	return strings.Join(out, " ")
}

// progress prints a line with the seconds since the program started.
func progress() func(string, ...any) {
	begin := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "[%5.1f s] %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
}

func nameFlag(f *flag.FlagSet) *string {
	return f.String("name", defaultName(), "the sandbox's `name`")
}

// defaultCluster is the name of a sandbox to which nobody gives one.
const defaultCluster = "default"

// defaultName is the name that the environment gives, or defaultCluster.
func defaultName() string { return cmp.Or(os.Getenv("SLURMLET_SANDBOX_NAME"), defaultCluster) }

// defaultWith is the process that the environment gives: a test's, for one. 0 is none.
func defaultWith() int {
	pid, _ := strconv.Atoi(os.Getenv("SLURMLET_SANDBOX_WITH"))
	return pid
}

// with opens the sandbox for the time of do.
func with(ctx context.Context, name string, do func(*sandbox.Sandbox) (int, error)) (int, error) {
	s, err := sandbox.Open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return do(s)
}

// did prints what a command has done, if it has.
func did(err error, format string, args ...any) (int, error) {
	if err == nil {
		fmt.Printf(format+"\n", args...)
	}
	return 0, err
}

func install(f *flag.FlagSet) action {
	noLimits := f.Bool("no-limits", false, "only what pods without limits need: no kernel")
	kubernetes := f.Bool("kubernetes", false, "what kube-up needs instead")
	workloads := f.Bool("workloads", false, "instead, the controllers of JobSet and LeaderWorkerSet")
	node := f.Bool("node", false, "of what kube-up needs, the nodes' root file system alone")
	return func(ctx context.Context, _ []string) (int, error) {
		switch {
		case *node:
			return did(kubecluster.InstallNode(ctx, progress()), "the root file system of Kubernetes' nodes is in the cache")
		case *workloads:
			_, err := parts.Workloads(ctx, progress())
			return did(err, "the controllers of JobSet and LeaderWorkerSet are in the cache")
		case *kubernetes:
			return did(kubecluster.Install(ctx, progress()), "what a Kubernetes cluster is made of is in the cache")
		}
		return did(sandbox.Install(ctx, !*noLimits, progress()), "what sandboxes are made of is in the cache")
	}
}
