package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Unassociated asks squeue(1) and sacctmgr(1) for the jobs that wait for their begin (sbatch --begin) and whose user has no
// association with the cluster's accounting. slurmctld forgets their begin when associations become required.
func (s Scontrol) Unassociated(ctx context.Context, cluster string) ([]Job, error) {
	jobs, err := s.withoutAssociation(ctx)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	sacctmgr := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.Path), "sacctmgr"), "--noheader", "--parsable2",
		"show", "associations",
		"cluster="+cluster, "format=User,Account")
	out, err := s.command(ctx, "sacctmgr show associations", sacctmgr)
	if err != nil {
		return nil, err
	}
	accounts := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		user, account, found := strings.Cut(strings.TrimSpace(line), "|")
		if !found {
			return nil, fmt.Errorf("cannot read the answer of sacctmgr: want a user and an account, not %q", line)
		}
		accounts[user] = append(accounts[user], account)
	}
	return slices.DeleteFunc(jobs, func(j Job) bool {
		has := accounts[j.User]
		return len(has) > 0 && (j.Account == "" || slices.ContainsFunc(has, func(a string) bool { return strings.EqualFold(a, j.Account) }))
	}), nil
}

// withoutAssociation are the jobs for which slurmctld has found none, as it came, and which begin later.
func (s Scontrol) withoutAssociation(ctx context.Context) ([]Job, error) {
	var answer struct {
		Jobs []struct {
			Job
			Association int64 `json:"association_id"`
			Eligible    Time  `json:"eligible_time"`
		} `json:"jobs"`
	}
	out, err := s.command(ctx, "squeue", exec.CommandContext(ctx, s.Squeue, "--all", "--local", "--states=PENDING", "--json"))
	if err == nil {
		err = read("squeue", out, &answer)
	}
	switch {
	case err != nil:
		return nil, err
	case answer.Jobs == nil:
		return nil, errors.New(`cannot read the answer of squeue: there is no list "jobs" in it`)
	}
	var all []Job
	for i := range answer.Jobs {
		if j := &answer.Jobs[i]; j.Association == 0 && j.Eligible.Time().After(time.Now()) {
			all = append(all, j.Job)
		}
	}
	return all, nil
}
