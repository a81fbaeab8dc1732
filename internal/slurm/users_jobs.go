package slurm

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// UsersJob is a job that has not ended, with its user.
type UsersJob struct {
	// ID is that of a whole array or heterogeneous job.
	ID   string
	UID  int
	User string
}

// UsersJobs asks squeue(1) for the jobs that wait, run or are suspended. User is the uid as text where nobody knows its
// name.
func (s Scontrol) UsersJobs(ctx context.Context) ([]UsersJob, error) {
	cmd := exec.CommandContext(ctx, s.Squeue, "--noheader", "--all", "--local", "--format=%i %U %t %u")
	out, err := s.command(ctx, "squeue", cmd)
	if err != nil {
		return nil, err
	}
	return parseUsersJobs(string(out))
}

func parseUsersJobs(text string) ([]UsersJob, error) {
	var all []UsersJob
	seen := map[UsersJob]bool{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), " ", 4)
		if len(fields) != 4 {
			return nil, fmt.Errorf("cannot read the answer of squeue: want a job, its uid, its state and its user, not %q", line)
		}
		id, _, _ := strings.Cut(fields[0], "_")
		id, _, _ = strings.Cut(id, "+")
		uid, err := strconv.Atoi(fields[1])
		if _, fault := strconv.ParseInt(id, 10, 64); err != nil || fault != nil {
			return nil, fmt.Errorf("cannot read the answer of squeue: %q has no job id, or no uid", line)
		}
		if job := (UsersJob{id, uid, strings.TrimSpace(fields[3])}); fields[2] != "CG" && !seen[job] {
			seen[job] = true
			all = append(all, job)
		}
	}
	return all, nil
}

// mostCancelled is how many jobs one scancel is given.
const mostCancelled = 500

// CancelJobs runs scancel(1), also for jobs of scrontab(1). Those that have ended are no error.
func (s Scontrol) CancelJobs(ctx context.Context, ids []string) error {
	for some := range slices.Chunk(ids, mostCancelled) {
		if err := s.scancel(ctx, append([]string{"--cron"}, some...)...); err != nil {
			return err
		}
	}
	return nil
}
