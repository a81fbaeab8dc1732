package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// A slurmstepd whose tasks have ended tells slurmctld how, and tries again every 15 s, without an end (mgr.c,
// RETRY_DELAY). Until then slurmctld counts the job as running. It would run twice if it were requeued meanwhile.

// externStep is the end of the socket of a job's extern step, whose task lives as long as slurmctld knows the job
// (PrologFlags=Contain; SLURM_EXTERN_CONT).
const externStep = ".4294967292"

// untold are those of the jobs that have ended here, as slurmstepd has still to tell.
func (a *Agent) untold(jobs []slurm.Job, steps []string) []slurm.Job {
	var all []slurm.Job
	busy := sync.OnceValue(notify.Parents)
	for i := range jobs {
		if job := &jobs[i]; job.Running() && a.isUntold(job, steps, busy) {
			all = append(all, *job)
		}
	}
	return all
}

// isUntold: a batch job ends with its script, which may have run elsewhere; another one with its last step.
func (a *Agent) isUntold(job *slurm.Job, steps []string, busy func() map[int]bool) bool {
	id := fmt.Sprint(job.ID)
	if job.Batch {
		return slices.Contains(steps, id+batchStep) && a.hasNoTask(id+batchStep, busy)
	}
	its := slices.DeleteFunc(slices.Clone(steps), func(step string) bool {
		return !strings.HasPrefix(step, id+".") || strings.HasSuffix(step, externStep)
	})
	return len(its) > 0 && !slices.ContainsFunc(its, func(step string) bool { return !a.hasNoTask(step, busy) })
}

// hasNoTask: the slurmstepd of a step lives and has no child; busy are the processes that have. What cannot be told is
// taken for a task.
func (a *Agent) hasNoTask(step string, busy func() map[int]bool) bool {
	pid := listener(filepath.Join(a.Root, a.Config.SpoolDir, a.Config.NodeName+"_"+step))
	return pid > 1 && len(busy()) > 0 && !busy()[pid]
}

// listener is the process that has begun to listen on a socket (unix(7), SO_PEERCRED), 0 where it cannot be told.
func listener(path string) (pid int) {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if of, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(of.Pid)
		}
	})
	return pid
}

// errUntold says that jobs were left alone, because slurmstepd has their end still to tell.
func errUntold(jobs []slurm.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	var names []string
	for i := range jobs {
		names = append(names, jobs[i].Name())
	}
	return fmt.Errorf("%s: %s", lifecycle.UntoldReason, strings.Join(names, ", "))
}

// requeueUntold ends the jobs of a pod that has no more time. How they have ended nobody will hear.
func (a *Agent) requeueUntold(ctx context.Context, jobs []slurm.Job) error {
	var faults []error
	for i := range jobs {
		job, user := &jobs[i], slog.String("user", jobs[i].User)
		text := fmt.Sprintf("slurmlet: the job had ended when the pod of %s was terminated, and slurmctld had not heard of it", a.Config.NodeName)
		faults = append(faults, a.client.Comment(ctx, job, text))
		if job.Batch && job.Requeue {
			a.log(slog.LevelWarn, "job "+job.Name()+" has ended, and slurmstepd could not tell slurmctld in time: the job is requeued, and runs twice", user)
			faults = append(faults, a.client.RequeueJob(ctx, job))
		} else {
			a.log(slog.LevelError, "job "+job.Name()+" has ended, and slurmstepd could not tell slurmctld in time: it counts as failed", user)
		}
	}
	return errors.Join(faults...)
}
