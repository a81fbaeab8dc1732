package slurm

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Unassociated asks squeue(1) and sacctmgr(1) for the pending jobs whose user has no association with the cluster's
// accounting. Those of begins wait for their begin (sbatch --begin), which slurmctld forgets when associations become
// required; the others stay pending until there is an association.
func (s Scontrol) Unassociated(ctx context.Context, cluster string) (begins, others []Job, err error) {
	begins, others, err = s.withoutAssociation(ctx)
	if err != nil || len(begins)+len(others) == 0 {
		return nil, nil, err
	}
	rows, err := s.AccountingRows(ctx, []string{"User", "Account", "Partition"}, "associations", "Cluster="+cluster)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(rows, func(row []string) bool { return row[1] == "root" }) {
		return nil, nil, errors.New("slurmdbd does not know the cluster " + cluster + ": its associations have no account root")
	}
	accounts := map[string]map[string][]string{} // the partitions, by user and account; an empty one stands for all
	for _, row := range rows {
		user, account := row[0], strings.ToLower(row[1])
		if accounts[user] == nil {
			accounts[user] = map[string][]string{}
		}
		accounts[user][account] = append(accounts[user][account], row[2])
	}
	associated := func(j Job) bool { return isAssociated(accounts[j.User], j) }
	return slices.DeleteFunc(begins, associated), slices.DeleteFunc(others, associated), nil
}

// isAssociated says whether the user's accounts have an association for a job, whatever the user's default account is and
// whichever of several partitions slurmctld looks for (assoc_mgr_fill_in_assoc in its assoc_mgr.c).
func isAssociated(accounts map[string][]string, j Job) bool {
	fits := func(partitions []string) bool {
		return slices.Contains(partitions, "") || len(j.Partitions) > 0 && !slices.ContainsFunc(j.Partitions, func(p string) bool {
			return !slices.Contains(partitions, p)
		})
	}
	if j.Account != "" {
		return fits(accounts[strings.ToLower(j.Account)])
	}
	for _, partitions := range accounts {
		if !fits(partitions) {
			return false
		}
	}
	return len(accounts) > 0
}

// withoutAssociation are the pending jobs for which slurmctld has found none as they came. Those of begins begin later.
func (s Scontrol) withoutAssociation(ctx context.Context) (begins, others []Job, err error) {
	var answer struct {
		List []shownJob `json:"jobs"`
	}
	out, err := s.command(ctx, "squeue", exec.CommandContext(ctx, s.Squeue, "--all", "--local", "--states=PENDING", "--json"))
	if err == nil {
		err = read("squeue", out, &answer)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case answer.List == nil:
		return nil, nil, errors.New(`cannot read the answer of squeue: there is no list "jobs" in it`)
	}
	for i := range answer.List {
		j := &answer.List[i]
		switch {
		case j.Association != 0:
		case j.Eligible.Time().After(time.Now()):
			begins = append(begins, j.job())
		default:
			others = append(others, j.job())
		}
	}
	return begins, others, nil
}
