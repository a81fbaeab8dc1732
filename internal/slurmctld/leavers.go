package slurmctld

import (
	"context"
	"path/filepath"

	"github.com/slurmlet/slurmlet/internal/pod/people"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// newLeavers makes what ends the jobs of those who have left.
func (p *Pod) newLeavers() *people.Keeper {
	return people.New(people.Options{
		Root: p.Root, Record: filepath.Join(p.StateDir, "slurmlet", "people.json"), Polls: true,
		Present: p.jobHolders, End: p.endJobs, Done: p.Done, Log: p.Log,
	})
}

// Leavers is what has become of those who have left, nil where nobody looks.
func (p *Pod) Leavers() *people.Status {
	if p == nil {
		return nil
	}
	return p.leaverKeeper.Status()
}

// jobHolders are those who have jobs, while slurmctld serves and answers.
func (p *Pod) jobHolders(ctx context.Context) (all []people.Holder, ok bool) {
	jobs, err := p.usersJobs(ctx)
	for _, j := range jobs {
		all = append(all, people.Holder{Name: j.User, UID: j.UID})
	}
	return all, err == nil
}

func (p *Pod) usersJobs(ctx context.Context) ([]slurm.UsersJob, error) {
	if !p.isServing() {
		return nil, slurm.ErrUnreachable
	}
	ctx, cancel := context.WithTimeout(ctx, p.Client.Limit())
	defer cancel()
	return p.Slurm.UsersJobs(ctx)
}

// endJobs cancels the jobs of a uid, whose name slurmctld may no longer know.
func (p *Pod) endJobs(ctx context.Context, person people.Person) error {
	jobs, err := p.usersJobs(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, j := range jobs {
		if j.UID == person.UID {
			ids = append(ids, j.ID)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.Client.Limit())
	defer cancel()
	client := p.Slurm
	client.Scancel = filepath.Join(filepath.Dir(client.Path), "scancel") // nothing else there cancels jobs
	return client.CancelJobs(ctx, ids)
}
