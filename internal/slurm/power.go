package slurm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// PoweredUp asks sinfo which nodes of a host list are up. A node without a record, or in no partition,
// is not. The answer has a line for each state, however many nodes there are.
func (s Scontrol) PoweredUp(ctx context.Context, names string) (hostlist.Set, error) {
	var up hostlist.Set
	err := s.Stream(ctx, func(from io.Reader) (err error) {
		up, err = readPoweredUp(from)
		return err
	}, "sinfo", "--noheader", "--all", "--local", "--nodes="+names, "--Format=StateComplete:|,NodeList:|")
	return up, err
}

// longestLine is longer than a host list of as many nodes as a cluster has.
const longestLine = 16 << 20

// readPoweredUp reads lines such as "idle+cloud+powered_down|cpu-[3-5]|".
func readPoweredUp(from io.Reader) (hostlist.Set, error) {
	var up, not hostlist.Set
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "|")
		if len(fields) != 3 || fields[1] == "" {
			return hostlist.Set{}, fmt.Errorf("want a state and nodes, not %q", lines.Text())
		}
		list, err := hostlist.Parse(strings.TrimSpace(fields[1]))
		if err != nil {
			return hostlist.Set{}, fmt.Errorf("cannot read the nodes %q: %w", fields[1], err)
		}
		if state := ParseState(fields[0]); state.Off() || state.Starting() { // it runs no job before its slurmd has registered
			not = not.Union(list.Set())
		} else {
			up = up.Union(list.Set())
		}
	}
	return up.Difference(not), lines.Err()
}

// mostNamed is how many jobs squeue is asked for by their numbers. Of more, it is asked for all.
const mostNamed = 1000

// Configuring asks squeue which of the jobs are CONFIGURING.
func (s Scontrol) Configuring(ctx context.Context, jobs []string) (map[string]bool, error) {
	return s.inState(ctx, jobs, "CONFIGURING")
}

// Completing asks which of the jobs are COMPLETING.
func (s Scontrol) Completing(ctx context.Context, jobs []string) (map[string]bool, error) {
	return s.inState(ctx, jobs, "COMPLETING")
}

// States asks squeue for the states of jobs, also of those that are over. Tasks of an array have a line each.
func (s Scontrol) States(ctx context.Context, jobs []string) (map[string]string, error) {
	args := []string{"--noheader", "--local", "--all", "--array", "--states=all", "--format=%A %F %K %T"}
	if len(jobs) <= mostNamed {
		// One alone would make it an error that slurmctld does not know it.
		args = append(args, "--jobs="+strings.Join(slices.Concat(jobs, jobs), ","))
	}
	states := map[string]string{}
	err := s.Stream(ctx, func(from io.Reader) error { return readStates(from, states) }, "squeue", args...)
	if unknown(err) {
		return states, nil
	}
	return states, err
}

// readStates reads lines such as "9 7 2 RUNNING", of the task 7_2, or "7 7 N/A PENDING". What waits of an array has the
// array's id, which is known as long as one of the tasks is.
func readStates(from io.Reader, states map[string]string) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 4 {
			return fmt.Errorf("want a job, its array, its task and its state, not %q", lines.Text())
		}
		id, array, task, state := fields[0], fields[1], fields[2], fields[3]
		if _, known := states[array]; !known {
			states[array] = state
		}
		states[id] = state
		if task != "N/A" {
			states[array+"_"+task] = state
		}
	}
	return lines.Err()
}

// inState costs slurmctld little, because it is asked for nothing but jobs' states. It may have forgotten
// some of the jobs, or all.
func (s Scontrol) inState(ctx context.Context, jobs []string, state string) (map[string]bool, error) {
	args := []string{"--noheader", "--local", "--only-job-state", "--format=%A %T"}
	if len(jobs) <= mostNamed {
		args = append(args, "--jobs="+strings.Join(jobs, ","))
	}
	found := map[string]bool{}
	err := s.Stream(ctx, func(from io.Reader) error { return readInState(from, state, found) }, "squeue", args...)
	if unknown(err) {
		return nil, nil
	}
	return found, err
}

// readInState reads lines such as "7 CONFIGURING".
func readInState(from io.Reader, state string, found map[string]bool) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		job, is, two := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if !two {
			return fmt.Errorf("want a job and its state, not %q", lines.Text())
		}
		if strings.TrimSpace(is) == state {
			found[job] = true
		}
	}
	return lines.Err()
}
