//go:build e2e

package cluster

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

var cost = flag.Bool("cost", false, "TestCost: measure")

// manyJobs and manyNodes are how many records TestCost makes.
const manyJobs, manyNodes = 10_000, 10_000

// TestCost prints what each way to ask costs slurmctld and the command.
func TestCost(t *testing.T) {
	if !*cost {
		t.Skip("it only measures: -cost")
	}
	native.EachVersion(t, func(t *testing.T, g native.Given) {
		native.Play(t, time.Hour, settings{Given: g, Cost: true, Metrics: g.Version >= "25.11"})
	})
}

func measure(s settings) error {
	conf := "MaxNodeCount=20000\nMaxJobCount=200000\nMaxArraySize=200001\nSchedulerParameters=defer\n"
	if s.Metrics {
		conf += "MetricsType=metrics/openmetrics\n"
	}
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, SlurmConf: conf})
	if err != nil {
		return err
	}
	w := &world{Cluster: c}
	if err = c.Control(func(string) {}); err == nil {
		err = errors.Join(w.makeRecords(), w.measureAll(s))
	}
	return errors.Join(err, c.Close())
}

// makeRecords: an update of an array's tasks makes a record of each.
func (w *world) makeRecords() error {
	if _, err := w.slurm("scontrol", "create", fmt.Sprintf("nodename=x-[1-%d]", manyNodes), "cpus=2", "realmemory=1000", "state=cloud"); err != nil {
		return err
	}
	id, err := w.slurmFrom("#!/bin/sh\n", "sbatch", "--parsable", "--hold", "--job-name=simulation", fmt.Sprintf("--array=1-%d", manyJobs), "--mem=10", "--output=/dev/null")
	if err != nil {
		return err
	}
	_, err = w.slurm("scontrol", "update", fmt.Sprintf("jobid=%s_[1-%d]", id, manyJobs-1), "nice=1")
	return err
}

func (w *world) measureAll(s settings) error {
	columns := "JobID:|,ArrayJobID:|,ArrayTaskID:|,HetJobID:|,UserName:|,UserID:|,Account:|,QOS:|,Partition:|,State:|,Reason:|,PriorityLong:|,SubmitTime:|,EligibleTime:|,StartTime:|,EndTime:|,TimeLimit:|,NumNodes:|,NumCPUs:|,tres-alloc:|,tres-per-job:|,tres-per-node:|,tres-per-task:|,NumTasks:|,RestartCnt:|,NodeList:|,Feature:|,Reservation:|,Licenses:|,Name:|"
	for _, ask := range [][]string{
		{"squeue", "--json", "--states=all"},
		{"squeue", "--noheader", "--array", "--states=all", "--Format=" + columns},
		{"squeue", "--only-job-state", "--json"},
		{"scontrol", "show", "nodes", "--json"},
		{"scontrol", "--detail", "--oneliner", "show", "nodes"},
	} {
		if err := w.measured(ask); err != nil {
			return err
		}
	}
	if !s.Metrics {
		return nil
	}
	pids, err := processes("slurmctld")
	if err != nil || len(pids) != 1 {
		return fmt.Errorf("there are %d slurmctlds: %w", len(pids), err)
	}
	for _, path := range []string{"jobs", "nodes", "partitions", "scheduler", "jobs-users-accts"} {
		before, err := cpuOf(pids[0])
		if err != nil {
			return err
		}
		began := time.Now()
		answer, err := http.Get("http://" + native.Address + ":6817/metrics/" + path) //nolint:noctx // the world ends with its context
		if err != nil {
			return err
		}
		size, err := io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		after, cpuErr := cpuOf(pids[0])
		if err := errors.Join(err, cpuErr); err != nil {
			return err
		}
		fmt.Printf("%-60s %8v, slurmctld %8v, %9d bytes\n", "GET /metrics/"+path, time.Since(began).Round(time.Millisecond), after-before, size)
	}
	return nil
}

// measured runs a command, and prints what it and slurmctld have needed.
func (w *world) measured(ask []string) error {
	pids, err := processes("slurmctld")
	if err != nil || len(pids) != 1 {
		return fmt.Errorf("there are %d slurmctlds: %w", len(pids), err)
	}
	before, err := cpuOf(pids[0])
	if err != nil {
		return err
	}
	cmd := w.Command("/usr/bin/"+ask[0], ask[1:]...)
	var size counter
	cmd.Stdout = &size
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := cpuOf(pids[0])
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	fmt.Printf("%-60s %8v, slurmctld %8v, command %8v and %4d MiB, %9d bytes\n", strings.Join(ask, " ")[:min(60, len(strings.Join(ask, " ")))],
		took.Round(time.Millisecond), after-before, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Round(time.Millisecond), usage.Maxrss>>10, size)
	return err
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
