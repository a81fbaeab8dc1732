package slurmctld

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// slurmrestd takes a token of a user whom slurmctld does not know, and slurmctld 24.11 takes the job, as user 99 (nobody). It
// gives nobody a credential (cred.c), so it holds the job when its turn comes. 26.05 refuses the job.

// heldLine matches slurmctld's word on such a job, which few slurmctlds ever say.
var heldLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`refusing to create job ([0-9]+) credential for invalid (?:user|group) nobody$`)
})

// heldJob returns the job of such a line, empty for others.
func heldJob(line process.Line) string {
	if line.Level != slog.LevelError {
		return ""
	}
	if match := heldLine().FindStringSubmatch(line.Text); match != nil {
		return match[1]
	}
	return ""
}

// heldJobs are the last jobs that slurmctld holds because it does not know their user.
type heldJobs struct {
	lock sync.Mutex
	jobs []string
}

// mostHeldJobs bounds the list.
const mostHeldJobs = 16

// add says whether a job is new.
func (h *heldJobs) add(job string) bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	if slices.Contains(h.jobs, job) {
		return false
	}
	h.jobs = append(h.jobs, job)
	h.jobs = slices.Clone(h.jobs[max(0, len(h.jobs)-mostHeldJobs):])
	return true
}

func (h *heldJobs) all() []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.jobs
}

// WhyHeld is what is said of such a job, to its user as well.
const WhyHeld = "slurmctld does not know the user whose token submitted the job"

// explainHeld says why the job is held. Its AdminComment has that for whoever looks at the job.
func (p *Pod) explainHeld(id string) {
	if !p.heldJobs.add(id) {
		return
	}
	p.Log(slog.LevelError,
		WhyHeld+", and holds job "+id+" for ever: cancel it, and make the user known in slurmctld's container", slog.String("job", id))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p.Client.UntilOver(ctx, "cannot write into the AdminComment of job "+id+" why it is held", func(ctx context.Context) error {
		job, err := p.Client.Job(ctx, id)
		if err != nil || job == nil {
			return err
		}
		return p.Client.Comment(ctx, job, "slurmlet: "+WhyHeld)
	})
}
