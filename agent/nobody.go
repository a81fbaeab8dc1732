package agent

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

// isNobodys is slurmctld's word on such a job.
var isNobodys = regexp.MustCompile(`refusing to create job ([0-9]+) credential for invalid (?:user|group) nobody$`)

// nobodysJob is the job of such a line, empty for others.
func nobodysJob(line process.Line) string {
	if line.Level != slog.LevelError {
		return ""
	}
	if match := isNobodys.FindStringSubmatch(line.Text); match != nil {
		return match[1]
	}
	return ""
}

// nobodys are the last jobs that slurmctld holds because it does not know their user.
type nobodys struct {
	lock sync.Mutex
	jobs []string
}

// mostNobodys bounds the list.
const mostNobodys = 16

// add says whether a job is new.
func (n *nobodys) add(job string) bool {
	n.lock.Lock()
	defer n.lock.Unlock()
	if slices.Contains(n.jobs, job) {
		return false
	}
	n.jobs = append(n.jobs, job)
	n.jobs = slices.Clone(n.jobs[max(0, len(n.jobs)-mostNobodys):])
	return true
}

func (n *nobodys) all() []string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.jobs
}

// whyNobodys is what is said of such a job, to its user as well.
const whyNobodys = "slurmctld does not know the user whose token submitted the job"

// tellNobodys says why the job is held. Its AdminComment tells whoever looks at the job.
func (a *Agent) tellNobodys(id string) {
	if !a.nobodys.add(id) {
		return
	}
	a.log(slog.LevelError, whyNobodys+", and holds job "+id+" for ever: cancel it, and make the user known in slurmctld's container", slog.String("job", id))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a.client.UntilOver(ctx, "cannot write into the AdminComment of job "+id+" why it is held", func(ctx context.Context) error {
		job, err := a.client.Job(ctx, id)
		if err != nil || job == nil {
			return err
		}
		return a.client.Comment(ctx, job, "slurmlet: "+whyNobodys)
	})
}
