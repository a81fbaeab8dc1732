// Scale drains a cluster of many dynamic nodes at once, with real daemons:
//
//	go run ./e2e/scale [-nodes 500] [-jobs 50] [-slurm 24.11,26.05] [-slurmlet bin/slurmlet]
//
// Every node is a small pod of its own (native.Node), some run jobs, and all get
// SIGTERM at the same moment. It fails unless slurmctld answers throughout, every
// agent exits with 0, no node record is left, and all jobs have completed.
//
// slurmctld and the pings come before the nodes (SCHED_RR, sched(7)): in life
// slurmctld has a machine of its own, and here all share one.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/native"
	"github.com/slurmlet/slurmlet/e2e/sandbox/parts"
)

func main() {
	var s settings
	versions := flag.String("slurm", strings.Join(parts.Versions(), ","), "`versions` of Slurm, one cluster of each after the other")
	flag.StringVar(&s.Slurmlet, "slurmlet", "bin/slurmlet", "the agent's `binary`")
	flag.IntVar(&s.Nodes, "nodes", 500, "how many `nodes` a cluster has")
	flag.IntVar(&s.Jobs, "jobs", -1, "on how many nodes a `job` runs (default a tenth)")
	flag.BoolVar(&s.IPv6, "ipv6", false, "the network has IPv6 addresses alone")
	flag.Parse()
	if text := native.Inside(); text != "" {
		exit(inside(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := outside(ctx, s, strings.Split(*versions, ","))
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "scale: "+format+"\n", args...) }

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	Slurmlet string // absolute path
	Nodes    int
	Jobs     int
	IPv6     bool
	Clusters []lower
}

// lower is a root file system with a version of Slurm.
type lower struct{ Version, Root string }

const mostNodes = 5000 // addresses are 10.88.1.1 to 10.88.20.250

func outside(ctx context.Context, s settings, versions []string) error {
	if s.Nodes < 1 || s.Nodes > mostNodes {
		return fmt.Errorf("cannot use -nodes %d: want 1 to %d", s.Nodes, mostNodes)
	}
	if s.Jobs < 0 {
		s.Jobs = (s.Nodes + 9) / 10
	}
	if s.Jobs > s.Nodes {
		return fmt.Errorf("cannot use -jobs %d: want one for each of %d nodes at most", s.Jobs, s.Nodes)
	}
	for _, version := range versions {
		root, err := parts.Root(ctx, version, progress)
		if err != nil {
			return err
		}
		s.Clusters = append(s.Clusters, lower{version, root})
	}
	var err error
	if s.Slurmlet, err = filepath.Abs(s.Slurmlet); err != nil {
		return fmt.Errorf("cannot find slurmlet: %w", err)
	}
	if _, err := os.Stat(s.Slurmlet); err != nil {
		return fmt.Errorf("cannot find slurmlet; build it first: %w", err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("cannot write the settings: %w", err)
	}
	return urgently(func() error { return native.Enter(ctx, string(text)) })
}

// urgently gives what do starts a real-time priority.
func urgently(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0); err != nil {
		return fmt.Errorf("cannot have a real-time priority: %w", err)
	}
	return do()
}

func inside(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("cannot read the settings: %w", err)
	}
	if err := native.Furnish(); err != nil {
		return err
	}
	for _, l := range s.Clusters {
		if err := drainAll(s, l); err != nil {
			return fmt.Errorf("cannot drain the cluster of Slurm %s: %w", l.Version, err)
		}
	}
	return nil
}
