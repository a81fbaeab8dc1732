package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// Relaunches are the jobs that slurmd was to launch while it ran them already, and when that was. Only slurmd knows
// which they are. They are kept until slurmctld has said what has become of them, in a file for the next container's agent.
type Relaunches struct {
	*Node
	// Resume lifts the node's drain.
	Resume func(context.Context) error

	lock sync.Mutex
	at   map[string]time.Time
	// path is the file, empty for none.
	path string
}

// refusedFile is its name in slurmd's spool directory.
const refusedFile = "slurmlet-refused-launches"

// Load takes up what an earlier agent has left in slurmd's spool directory, and keeps it there.
func (r *Relaunches) Load() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.path = filepath.Join(r.Spool.Path(), refusedFile)
	text, err := os.ReadFile(r.path)
	var at map[string]time.Time
	if err == nil && json.Unmarshal(text, &at) == nil {
		r.at = at
	}
}

// save does what it can: without the file only an agent that ends too early leaves a job held.
func (r *Relaunches) save() {
	if r.path == "" {
		return
	}
	if len(r.at) == 0 {
		_ = os.Remove(r.path)
		return
	}
	text, err := json.Marshal(r.at)
	if err == nil && os.WriteFile(r.path+".new", text, 0o600) == nil {
		_ = os.Rename(r.path+".new", r.path)
	}
}

func (r *Relaunches) add(job string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[job] = time.Now()
	r.save()
}

// Any says whether there are some.
func (r *Relaunches) Any() bool { return len(r.all()) > 0 }

func (r *Relaunches) all() map[string]time.Time {
	r.lock.Lock()
	defer r.lock.Unlock()
	return maps.Clone(r.at)
}

// drop leaves out those of which the end is known, but not what came since.
func (r *Relaunches) drop(known map[string]time.Time) {
	r.lock.Lock()
	defer r.lock.Unlock()
	maps.DeleteFunc(r.at, func(job string, at time.Time) bool { return known[job].Equal(at) })
	r.save()
}

// alreadyRuns is slurmd's word on such a job ("Job 5" in 24.11, "JobId=5 SLUID=…" in 26.05; req.c, _rpc_batch_job).
// It is compiled for the first line that may be one.
var alreadyRuns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^Job(?: |Id=)([0-9]+)(?: SLUID=\w+)? already running, do not launch second copy$`)
})

// Heard takes a line of slurmd's, and says whether it is about such a job.
func (r *Relaunches) Heard(line process.Line) bool {
	job := refusedLaunch(line)
	if job == "" {
		return false
	}
	r.add(job)
	return true
}

// refusedLaunch is the job of such a line, empty for others.
func refusedLaunch(line process.Line) string {
	if line.Level != slog.LevelError {
		return ""
	}
	if match := alreadyRuns().FindStringSubmatch(line.Text); match != nil {
		return match[1]
	}
	return ""
}

const (
	// whyHeld is why slurmctld holds such a job, and also one whose prolog has failed.
	whyHeld = "launch failed requeued held"
	// refusalTime is what slurmctld has to requeue the job, and to drain the node.
	refusalTime = time.Minute
)

// Mend releases those jobs, and lifts slurmctld's drain. slurmctld ends the run that it has forgotten, and
// starts the job anew when nothing of it is left.
func (r *Relaunches) Mend(ctx context.Context) error {
	known := r.all()
	recent := false
	for id, at := range known {
		recent = recent || time.Since(at) < refusalTime
		if runs, err := r.release(ctx, id); err != nil || runs && time.Since(at) < refusalTime {
			return cmp.Or(err, fmt.Errorf("slurmctld has not requeued job %s yet", id))
		}
	}
	record, err := r.Slurm.Node(ctx, r.Name)
	switch {
	case err != nil:
		return err
	case record == nil: // its drain went with it
	case node.Relaunched(record) && !record.Is("POWER_DOWN") && !record.Off():
		r.Log(slog.LevelWarn, "slurmctld had forgotten that a job ran here, and has drained the node: the drain is lifted")
		err = r.Resume(ctx)
	case recent && !record.Drained():
		err = errors.New("slurmctld has not drained the node yet")
	}
	if err == nil {
		r.drop(known)
	}
	return err
}

// release releases a job if slurmctld holds it because of its launch, and says whether it runs here still.
func (r *Relaunches) release(ctx context.Context, id string) (runs bool, err error) {
	job, err := r.Slurm.Job(ctx, id)
	switch {
	case err != nil || job == nil:
		return false, err
	case job.State.Pending() && job.Held && job.Reason == whyHeld:
		r.Log(slog.LevelWarn,
			"slurmctld had forgotten that job "+job.JobID()+" ran here, and has held it: it is released", slog.String("user", job.User))
		return false, r.Slurm.ReleaseJob(ctx, job)
	}
	return job.Running() && job.BatchHost == r.Name, nil
}

// ReleaseLast does so for a node that is about to go: nobody else knows of them.
func (r *Relaunches) ReleaseLast(ctx context.Context) {
	for id := range r.all() {
		if _, err := r.release(ctx, id); err != nil {
			r.Log(slog.LevelWarn, "cannot find out whether slurmctld holds job "+id, slog.Any("error", err))
		}
	}
}
