package main

import (
	"context"
	"fmt"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/holds"
)

// holdProgram is the program of a node's that Slurm has run by its link, and the link's directory; empty for none.
func holdProgram() (p holds.Program, dir string) {
	for _, p := range holds.Programs() {
		if filepath.Base(os.Args[0]) == string(p) {
			return p, filepath.Dir(executed(os.Args[0]))
		}
	}
	return "", ""
}

// runHold is the batch script of a job that stands for Kubernetes' pods, or the epilog of one.
func runHold(p holds.Program, dir string) int {
	job := os.Getenv("SLURM_JOB_ID")
	if job == "" {
		fmt.Fprintf(os.Stderr, "%s: want SLURM_JOB_ID: Slurm runs this program\n", p)
		return agent.ExitUsage
	}
	if p == holds.Epilog {
		_ = holds.AwaitEpilog(context.Background(), dir, job) // nothing ends it but slurmd
		return agent.ExitOK
	}
	return standIn(dir, job)
}

// podsStatus is the exit status of a job's pods: the gateway has written it into the job's comment. It is 1 where slurmctld
// does not tell it.
func podsStatus(job string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	scontrol, err := process.Find("scontrol")
	if err != nil { // a job may have any PATH
		scontrol = "/usr/bin/scontrol"
	}
	id, err := strconv.ParseUint(job, 10, 32)
	if err != nil {
		return agent.ExitFailure
	}
	all, err := slurm.Scontrol{Path: scontrol, Env: os.Environ()}.CommentedJobs(ctx, []uint32{uint32(id)})
	if err != nil || len(all) == 0 {
		return agent.ExitFailure
	}
	return wire.StatusOf(all[0].Comment)
}

// standIn waits: for SIGWINCH, after which the job has completed, for SIGUSR2, after which it has failed, or for the end of its
// pods where Slurm ends the job. slurmd kills it when KillWait is over. A signal may come before this program hears of signals.
// SIGWINCH then does nothing, and the gateway sends it again; SIGUSR2 ends the program, and the job has failed as it should.
func standIn(dir, job string) int {
	signals := make(chan os.Signal, 8)
	ossignal.Notify(signals, unix.SIGWINCH, unix.SIGUSR2, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	var over chan struct{}
	for {
		select {
		case <-over:
			return 128 + int(unix.SIGTERM)
		case s := <-signals:
			switch {
			case s == unix.SIGWINCH:
				return agent.ExitOK
			case s == unix.SIGUSR2:
				return podsStatus(job)
			case over == nil:
				over = make(chan struct{})
				go func() {
					_ = holds.AwaitPods(context.Background(), dir, job) // nothing ends it but slurmd
					close(over)
				}()
			}
		}
	}
}
