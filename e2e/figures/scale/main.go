// Scale measures what a cluster of many dynamic nodes costs slurmctld, with real daemons:
//
//	go run ./e2e/figures/scale [-nodes 500 | -simulated 10000] [-slurm 24.11,26.05] [-do start,idle,edit,…] [-slurmlet bin/slurmlet]
//
// Every node is a small pod of its own (native.Node), and slurmctld runs under its agent. The
// scenarios come in this order:
//
//	start    all nodes start, a few at a time; -starters says how many. A user asks squeue and scontrol
//	         ping meanwhile, as in edit, ends and drain
//	idle     nothing happens for -idle
//	edit     a bare "scontrol reconfigure", and then an edit of slurm.conf, until the last node has it
//	restart  slurmctld's agent gets SIGTERM and is started anew, until every node responds
//	hold     slurmctld is stopped (SIGSTOP) for -hold and continued, until it answers a user. A tenth of
//	         all nodes get SIGTERM meanwhile
//	ends     a quarter of all nodes get SIGTERM at once, with 30 s of grace and a job on every
//	         second one of them
//	drain    the other nodes get SIGTERM at once; -jobs of them run a job that ends later
//
// With -records 10000, there are as many further records of nodes that are powered down, so that
// each question and each registration costs what it costs in a cluster of that size.
//
// With -simulated 500,10000 in the place of -nodes, the nodes are agents without slurmd. Each is the real
// agent (agent.Run) with its lifecycle, timers, jitter and sockets. It follows the feed of slurmctld's agent with
// the cluster's key, runs real sinfo and scontrol, and has its record deleted through slurmctld's agent. A
// few processes hold all of them, 1,250 each, with an address of its own as a machine with many
// pods has it. What is not there:
//
//   - slurmd is only said to run (process.NewPretence). Its record is CLOUD and powered down,
//     because slurmctld takes such a node for well without a slurmd that answers. "scontrol update" gives the record
//     its Extra in the place of a registration, so the agent takes the record for its slurmd's. It
//     thus asks what it asks of a real node, for one node at a time.
//   - slurmctld pushes no configuration to such nodes. All slurmds hand over at one moment, as soon as slurmctld's
//     successor is there: a real push spreads them.
//   - There are no jobs, because nobody would run them.
//   - The agents of a process share one inotify instance, one spool directory and one copy of the
//     configuration.
//   - slurmctld signs for the agents' commands, as a slurmd does on a real node. Its processor time is thus above that
//     of a real cluster.
//   - All agents run 16 commands at the same time, in the place of one each, because a command
//     needs a tenth of a second on a busy machine. MessageTimeout=100 has them wait for that. How long
//     something takes, where agents ask Slurm, is therefore this machine's time. Counts, bytes and what
//     slurmctld's agent does are not.
//
// The scenarios are start, idle, edit, restart, ends (a quarter of all agents, with 30 s of grace) and drain (the others).
// Users ask slurmctld meanwhile, but for idle and restart.
//
// For each it prints a table: the remote procedure calls that slurmctld was asked by type, with
// their times (sdiag), the processor time of slurmctld and of its agent, the bytes that slurmctld
// has sent, the time it took, and how long users waited. With two sizes (-nodes 125,500) it
// prints the exponents of growth from the first to the last. A scenario fails if
// slurmctld does not answer its users, an agent that was ended leaves its record, one that had the
// time does not exit with 0, or a job is lost. The others happen all the same.
//
// A machine stops at the least of its limits: a node has some 22 threads, which kernel.pid_max
// counts, and 6 to 8 MB. Agents beyond fs.inotify.max_user_instances look at their files once a
// minute.
//
// slurmctld and the users come before the nodes (SCHED_RR, sched(7)) where the machine allows that: in
// life slurmctld has a machine of its own, and here all share one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

func main() {
	var s settings
	versions := flag.String("slurm", strings.Join(parts.Versions(), ","), "`versions` of Slurm, one cluster of each after the other")
	sizes := flag.String("nodes", "500", "how many `nodes` a cluster has; several numbers for one cluster after the other, and the growth")
	do := flag.String("do", strings.Join(names(scenarios), ","), "the `scenarios`, in the order above")
	flag.StringVar(&s.Slurmlet, "slurmlet", "bin/slurmlet", "the agent's `binary`")
	flag.IntVar(&s.Jobs, "jobs", -1, "on how many nodes a `job` runs that drain waits for (default a tenth of all)")
	flag.IntVar(&s.Starters, "starters", 8, "how many nodes start at the same `time`")
	flag.DurationVar(&s.Idle, "idle", time.Minute, "how `long` nothing happens")
	flag.DurationVar(&s.Hold, "hold", time.Minute, "how `long` slurmctld is stopped")
	flag.StringVar(&s.SlurmConf, "conf", "", "further `lines` of slurm.conf, separated by semicolons")
	flag.IntVar(&s.Records, "records", 0, "how many further node `records` there are, of nodes that are powered down")
	flag.StringVar(&s.Beforehand, "beforehand", "", "the `state` (FUTURE or CLOUD) in which all nodes' records are created before the nodes start; empty: each node makes its own")
	simulated := flag.String("simulated", "", "how many `agents` there are whose slurmd is only said to run, in the place of -nodes")
	flag.BoolVar(&s.IPv6, "ipv6", false, "the network has IPv6 addresses alone")
	flag.Parse()
	runHost()
	if s.Simulated = *simulated != ""; s.Simulated {
		*sizes = *simulated
	}
	native.Main(func(ctx context.Context) error {
		if err := s.parse(*sizes, *do); err != nil {
			return err
		}
		return outside(ctx, s, strings.Split(*versions, ","))
	}, inside)
}

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	Slurmlet   string // absolute path
	Sizes      []int
	Do         []string
	Jobs       int
	Records    int
	Beforehand string
	Starters   int
	Idle, Hold time.Duration
	SlurmConf  string
	IPv6       bool
	Simulated  bool
	Clusters   []lower
}

// lower is a root file system with a version of Slurm.
type lower struct{ Version, Root string }

const (
	mostNodes  = 5000  // addresses are 10.88.1.1 to 10.88.20.250
	mostAgents = 65536 // of a cluster (slurm.conf(5), MaxNodeCount)
)

// parse takes the flags that are lists.
func (s *settings) parse(sizes, do string) error {
	most := mostNodes
	if s.Simulated {
		most = mostAgents
	}
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("cannot have %s nodes: want 1 to %d", text, most)
		}
		if s.Jobs > n {
			return fmt.Errorf("cannot use -jobs %d: want one for each of %d nodes at most", s.Jobs, n)
		}
		s.Sizes = append(s.Sizes, n)
	}
	s.Do = strings.Split(do, ",")
	for _, name := range s.Do {
		if !slices.Contains(names(scenarios), name) {
			return fmt.Errorf("cannot do %q: want some of %s", name, strings.Join(names(scenarios), ", "))
		}
	}
	s.SlurmConf = strings.ReplaceAll(s.SlurmConf, ";", "\n") + "\n"
	return nil
}

func outside(ctx context.Context, s settings, versions []string) error {
	if !s.Simulated {
		if err := room(slices.Max(s.Sizes)); err != nil {
			return err
		}
	}
	for _, version := range versions {
		root, err := parts.Root(ctx, version, native.Progress)
		if err != nil {
			return err
		}
		s.Clusters = append(s.Clusters, lower{version, root})
	}
	var err error
	if s.Slurmlet, err = native.FindSlurmlet(s.Slurmlet); err != nil {
		return err
	}
	return urgently(func() error { return native.Enter(ctx, s) })
}

// urgently gives what do starts a real-time priority, where the machine allows it.
func urgently(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
	if errors.Is(err, unix.EPERM) {
		native.Progress("cannot have a real-time priority: %v: slurmctld and its users wait for processors as the nodes do", err)
	} else if err != nil {
		return fmt.Errorf("cannot have a real-time priority: %w", err)
	}
	return do()
}

func inside(s settings) error {
	failed := false
	for _, l := range s.Clusters {
		var results []result
		for _, nodes := range s.Sizes {
			r, err := run(s, l, nodes)
			if err != nil {
				return fmt.Errorf("cannot measure the cluster of Slurm %s with %d nodes: %w", l.Version, nodes, err)
			}
			results, failed = append(results, r), failed || r.failed()
		}
		if err := printGrowth(os.Stdout, results); err != nil {
			return err
		}
	}
	if failed {
		return errors.New("something FAILED, see above")
	}
	return nil
}
