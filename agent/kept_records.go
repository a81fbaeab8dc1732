package agent

import (
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/keptrecords"
)

// newKeptRecords makes what slurmctld's agent has for records that stay without a pod.
func (a *Agent) newKeptRecords(scontrol slurm.Scontrol) *keptrecords.Keeper {
	scontrol.Sinfo = filepath.Join(filepath.Dir(scontrol.Path), "sinfo") // nothing else in slurmctld's container asks for one node
	o := keptrecords.Options{
		Slurm: scontrol, Serving: func() bool { return a.status.Load().State.Serving() },
		QuestionLimit: a.questionLimit, Done: a.over, Log: a.log,
	}
	if a.Config.Peers != "" {
		o.Heard = func() time.Time { return a.members.client.Status().Updated }
	}
	return keptrecords.New(o)
}
