package reconfig

import (
	"context"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// A slurmctld that is configured to require associations forgets the begin (sbatch --begin) of the pending jobs whose user has
// none (_job_fail_account in its job_mgr.c): they start as soon as there is an association.

// enforcing are the values of AccountingStorageEnforce that require associations (slurm.conf(5)).
var enforcing = []string{"associations", "association", "1", "limits", "2", "safe", "qos", "wckeys", "all"}

func enforces(set *slurmconf.Set) bool {
	value, _ := set.Conf(slurmconf.SlurmConf).Value("AccountingStorageEnforce")
	return slices.ContainsFunc(strings.Split(strings.ToLower(value), ","), func(one string) bool {
		return slices.Contains(enforcing, strings.TrimSpace(one))
	})
}

// beginsMayGo asks whether jobs would lose their begin. It returns a conf.InUse if so, or if nobody knows. Other pending jobs
// without an association lose nothing: the edit goes on, and the status and the log name them.
func (r *Reloader) beginsMayGo(ctx context.Context, removed removedPartitions) error {
	r.unassociated.Store(nil)
	if removed.enforces == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	begins, others, err := r.Client.Unassociated(ctx, removed.enforces)
	if err != nil {
		return conf.InUse{
			Why: "AccountingStorageEnforce requires associations, and nobody knows which pending jobs have users " +
				"without one, and would lose their begin: " + err.Error(),
		}
	}
	if len(others) > 0 {
		warning := "AccountingStorageEnforce requires associations, and users of pending jobs have none (" + few(owned(others)) +
			"): the jobs stay pending until they have one (sacctmgr add user)"
		r.unassociated.Store(&warning)
	}
	if len(begins) == 0 {
		return nil
	}
	return conf.InUse{
		Why: "AccountingStorageEnforce requires associations, and jobs wait for their begin whose users have none (" + few(owned(begins)) +
			"): slurmctld would forget the begin: want an association (sacctmgr add user), or the jobs cancelled; " +
			"the edit is tried again every " + conf.InUsePause.String(),
	}
}

// owned names jobs and their users.
func owned(jobs []slurm.Job) (names []string) {
	for i := range jobs {
		names = append(names, jobs[i].JobID()+" of "+jobs[i].User)
	}
	return names
}

// beginsToEnforce returns the name of the cluster where after requires associations and before did not, empty otherwise.
func beginsToEnforce(before, after *slurmconf.Set) (cluster string) {
	if enforces(before) || !enforces(after) {
		return ""
	}
	cluster, _ = after.Conf(slurmconf.SlurmConf).Value("ClusterName")
	return cluster
}
