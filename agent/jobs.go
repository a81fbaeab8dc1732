package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// stepSockets are those of the steps that run here: slurmstepd listens on
// <node>_<job>.<step> in the spool directory, and removes it when it ends. That
// of one which was killed stays, and nobody answers.
func (a *Agent) stepSockets() []string {
	living, _ := a.sockets()
	return living
}

// socketsLimit bounds a look at the spool directory, and unknownStep stands for the
// steps there where its file system does not answer. It counts as one that lives.
const (
	socketsLimit = 5 * time.Second
	unknownStep  = "?"
)

func (a *Agent) sockets() (living, dead []string) {
	if a.spoolHangs.Load() {
		return []string{unknownStep}, nil // somebody waits for it still
	}
	looked := make(chan struct{})
	var l, d []string
	go func() {
		l, d = a.lookAtSockets()
		close(looked)
	}()
	select {
	case <-looked:
		return l, d
	case <-time.After(socketsLimit):
	}
	a.spoolHangs.Store(true)
	go func() {
		<-looked
		a.spoolHangs.Store(false)
	}()
	return []string{unknownStep}, nil
}

func (a *Agent) lookAtSockets() (living, dead []string) {
	for _, step := range a.socketNames() {
		if answers(filepath.Join(a.Root, a.Config.SpoolDir, a.Config.NodeName+"_"+step)) {
			living = append(living, step)
		} else {
			dead = append(dead, step)
		}
	}
	return living, dead
}

// hasNewSpool: slurmd leaves files in the spool directory, and there are none yet.
func (a *Agent) hasNewSpool() bool {
	entries, err := os.ReadDir(filepath.Join(a.Root, a.Config.SpoolDir))
	used := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "lost+found" }) // a file system's own
	return !used && (err == nil || errors.Is(err, os.ErrNotExist))
}

// socketNames are those of all sockets, <job>.<step>, whether somebody listens or not.
func (a *Agent) socketNames() []string {
	entries, err := os.ReadDir(filepath.Join(a.Root, a.Config.SpoolDir))
	if err != nil {
		return nil // slurmd has not made it
	}
	var all []string
	for _, entry := range entries {
		if step, ours := strings.CutPrefix(entry.Name(), a.Config.NodeName+"_"); ours && entry.Type() == os.ModeSocket {
			all = append(all, step)
		}
	}
	return all
}

// answers says whether somebody listens on a socket. Only a refusal means that
// nobody does.
func answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
	}
	return !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT)
}

// askJobs asks what there is to know about the record on the way down.
func (a *Agent) askJobs(ctx context.Context, act lifecycle.AskJobs) lifecycle.Event {
	a.releaseLast(ctx)
	a.holders.begin()
	e := a.askHere(ctx, act)
	if e.Err == nil && e.Node != nil && (e.Doubtful || !e.Node.Busy()) && len(e.Jobs) == 0 && !e.Node.Elastic() { // a CLOUD node's record stays
		e.Elsewhere, e.Err = a.endingElsewhere(ctx)
		e.Late = isLate(e.Err)
	}
	return e
}

// askHere asks for the record, and for the jobs that hold the node.
func (a *Agent) askHere(ctx context.Context, act lifecycle.AskJobs) lifecycle.Answered {
	need := act.Need
	need.Jobs = false // of a node that may be idle, slurmctld's answer to its deletion tells
	before := a.stepSockets()
	a.holders.add(jobIDs(before))
	e := a.recordAnswer(ctx, act.Number, need)
	steps := a.stepSockets()
	if len(before) > 0 && len(steps) == 0 && e.Err == nil { // the last step has ended meanwhile
		e = a.recordAnswer(ctx, act.Number, need)
	}
	a.holders.add(jobIDs(steps))
	e.Steps = len(steps)
	if e.Err != nil || e.Node == nil || !e.Node.Busy() {
		return e
	}
	e.Doubtful = mayBeIdle(e.Node) && e.Steps == 0
	var err error
	if e.Doubtful && !act.Need.Jobs && a.sackd.Load() == nil {
		// A suspended job would not keep slurmctld from deleting the record.
		e.Jobs, err = a.knownJobs(ctx, steps)
		e.Doubtful = err == nil && len(e.Jobs) == 0
		return e
	}
	e.Jobs, e.Counted, err = a.jobsHolding(ctx, e.Node, steps, act.Need.Jobs)
	if err != nil {
		a.log(slog.LevelDebug, "cannot tell which jobs run here", slog.Any("error", err)) // only shown
	}
	e.Untold = len(a.untold(e.Jobs, steps))
	return e
}

func (a *Agent) jobs(ctx context.Context, ids []string) ([]slurm.Job, error) {
	var all []slurm.Job
	for _, id := range ids {
		job, err := a.client.Job(ctx, id)
		if err != nil {
			return all, err
		}
		a.holders.note(id, job)
		if job != nil {
			all = append(all, *job)
		}
	}
	return all, nil
}

// requeueJobs requeues what may be, and tells of what may not: it has until
// the node is set DOWN. The jobs whose steps run here come first, because slurmctld knows them
// by their numbers. All jobs are looked through for others if any still runs. Jobs that slurmstepd
// has still to tell of are left alone, unless last says that it has no more time.
func (a *Agent) requeueJobs(ctx context.Context, last bool) error {
	steps := a.stepSockets()
	known, err := a.jobsOf(ctx, steps)
	untold := a.untold(known, steps)
	isUntold := func(j slurm.Job) bool { return contains(untold, fmt.Sprint(j.ID)) }
	if err == nil {
		err = a.requeueAll(ctx, slices.DeleteFunc(slices.Clone(known), isUntold))
	}
	if err == nil && last {
		err = a.requeueUntold(ctx, untold)
	} else if err == nil {
		err = errUntold(untold)
	}
	if err != nil {
		return err
	}
	if len(known) > 0 {
		node, err := a.client.Glance(ctx, a.Config.NodeName)
		if err != nil || node != nil && !node.Allocated() {
			return err
		}
	}
	all, err := a.jobsHere(ctx)
	if err != nil {
		return err
	}
	return a.requeueAll(ctx, slices.DeleteFunc(all, func(j slurm.Job) bool { return contains(known, fmt.Sprint(j.ID)) }))
}

func (a *Agent) requeueAll(ctx context.Context, jobs []slurm.Job) error {
	var faults []error
	for i := range jobs {
		if job := &jobs[i]; job.Running() {
			faults = append(faults, a.requeue(ctx, job))
		}
	}
	return errors.Join(faults...)
}

func (a *Agent) requeue(ctx context.Context, job *slurm.Job) error {
	if job.Batch && job.Requeue {
		a.log(slog.LevelWarn, "the pod's time is over: requeueing job "+job.Name(), slog.String("user", job.User))
		return a.client.RequeueJob(ctx, job)
	}
	text := fmt.Sprintf("slurmlet: the pod of %s was terminated, and the job may not be requeued", a.Config.NodeName)
	if !strings.Contains(job.AdminComment, text) { // else it was told at an earlier try
		a.log(slog.LevelError, "the pod's time is over, and job "+job.Name()+" may not be requeued: it will fail", slog.String("user", job.User))
	}
	return a.client.Comment(ctx, job, text)
}

// signalJobs sends SLURMLET_JOB_SIGNAL to each job that runs here, once.
func (a *Agent) signalJobs() {
	sent := map[string]bool{}
	a.client.UntilOver(context.Background(), "cannot signal the jobs yet", func(ctx context.Context) error {
		jobs, err := a.jobsHere(ctx)
		if err != nil {
			return err
		}
		var faults []error
		for i := range jobs {
			job := &jobs[i]
			if sent[job.Name()] || !job.Running() {
				continue
			}
			err := a.client.SignalJob(ctx, job, a.Config.JobSignal.Name, a.Config.JobSignal.Batch)
			sent[job.Name()] = err == nil
			faults = append(faults, err)
			if err == nil {
				a.log(slog.LevelInfo, "signalled job "+job.Name(), slog.String("signal", a.Config.JobSignal.Name))
			}
		}
		return errors.Join(faults...)
	})
}

// killRequeued kills what runs here of jobs that slurmctld has ended, and that
// did not end when they were asked to.
func (a *Agent) killRequeued() {
	a.client.UntilOver(context.Background(), "cannot tell which jobs have been requeued", func(ctx context.Context) error {
		jobs, err := a.jobsOf(ctx, a.stepSockets())
		if err == nil && len(jobs) == 0 {
			jobs, err = a.jobsHere(ctx)
		}
		if err != nil {
			return err
		}
		var running []string
		for _, job := range jobs {
			if job.Running() {
				running = append(running, fmt.Sprint(job.ID))
			}
		}
		return a.endTasks(unix.SIGKILL, func(id string) bool { return id != "" && !slices.Contains(running, id) })
	})
}

// endSteps asks what still runs here to end, or kills it.
func (a *Agent) endSteps(kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	if err := a.endTasks(signal, func(string) bool { return true }); err != nil {
		a.log(slog.LevelWarn, "cannot end the steps", slog.Any("error", err))
	}
}

func (a *Agent) endTasks(signal unix.Signal, which func(job string) bool) error {
	if a.delegated.Steps == "" {
		return nil // they end with the container
	}
	return a.machine.EndTasks(a.delegated.Steps, signal, which)
}

// holdSteps keeps slurmstepd from telling slurmctld how its tasks have ended.
func (a *Agent) holdSteps() {
	if a.delegated.Steps != "" {
		a.machine.HoldSteps(a.delegated.Steps)
	}
}

// killSteps leaves no slurmstepd behind: nobody would tell slurmctld of its end.
func (a *Agent) killSteps() {
	if a.delegated.Steps == "" {
		return
	}
	if err := a.machine.KillSteps(a.delegated.Steps); err != nil {
		a.log(slog.LevelWarn, "cannot end the steps", slog.Any("error", err))
	}
}
