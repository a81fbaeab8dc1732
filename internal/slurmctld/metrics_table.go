package slurmctld

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods/kept"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
)

// WriteMetrics adds what there is to tell of slurmctld and of its configuration. conf may be nil.
func (s Status) WriteMetrics(w *exposition.Writer, conf *reconfig.Status) {
	exposition.ExposeAll(w, ofLosses, s.Losses)
	exposition.ExposeAll(w, ofRecords, s.Records)
	exposition.ExposeAll(w, ofKeptRecords, s.KeptRecords)
	exposition.ExposeAll(w, ofElastic, s.Elastic)
	s.Elastic.ExposeStarts(w)
	exposition.ExposeAll(w, ofAccounts, s.Accounts)
	exposition.ExposeAll(w, ofLostJobs, s.LostJobs)
	if conf != nil {
		exposition.ExposeAll(w, ofConf, conf)
		exposition.ExposeAll(w, ofReload, conf.Reloads.Last)
		exposition.ExposeAll(w, ofRefusal, conf.Refused)
	}
}

// metric is one that a T has.
type metric[T any] exposition.Metric[T]

var ofLosses = []metric[LossStatus]{
	{
		"daemon_losses_total", "", "Lines in which slurmctld has said that it has lost a job, or its state",
		func(l *LossStatus) []exposition.Sample { return exposition.Amount(l.Count) },
	},
}

var ofRecords = []metric[gonepods.Status]{
	{
		"records_timestamp_seconds", "", "When slurmctld told its nodes last, for slurmlet's controller",
		func(r *gonepods.Status) []exposition.Sample { return exposition.Moment(r.Looked) },
	},
	{"records_nodes", "state", "Nodes as slurmlet's controller is told of them", func(r *gonepods.Status) []exposition.Sample {
		return slices.Concat(exposition.Amount(r.Idle, "idle"), exposition.Amount(r.Busy, "busy"), exposition.Amount(r.Absent, "absent"))
	}},
	{
		"records_waiting", "", "Pods of nodes that are gone whose records stay for now",
		func(r *gonepods.Status) []exposition.Sample { return exposition.Amount(r.Waiting) },
	},
	{
		"records_deleted_total", "", "Records deleted because their pods are gone",
		func(r *gonepods.Status) []exposition.Sample { return exposition.Amount(r.Deleted) },
	},
	{
		"records_lost_total", "", "Nodes set DOWN because their machines are gone",
		func(r *gonepods.Status) []exposition.Sample { return exposition.Amount(r.Lost) },
	},
}

var ofKeptRecords = []metric[kept.Status]{
	{
		"records_kept", "", "Records that stay without a pod: somebody names the nodes, or the pods are made again",
		func(k *kept.Status) []exposition.Sample { return exposition.Amount(k.Count) },
	},
	{
		"records_kept_deleted_total", "", "Records deleted that had stayed without a pod",
		func(k *kept.Status) []exposition.Sample { return exposition.Amount(k.Deleted) },
	},
}

var ofAccounts = []metric[accounts.Status]{
	{
		"accounts_refused", "reason", "1 while slurmdbd does not have what SLURMLET_ACCOUNTS has, for this reason; the status says more",
		func(a *accounts.Status) []exposition.Sample {
			return exposition.OfEach(accounts.Reasons, func(r string) []exposition.Sample { return exposition.Whether(a.Reason == r, r) })
		},
	},
	{
		"accounts_applied_timestamp_seconds", "", "When slurmdbd had all that SLURMLET_ACCOUNTS has",
		func(a *accounts.Status) []exposition.Sample { return exposition.Moment(a.Applied) },
	},
	{
		"accounts_changes_total", "", "Changes of slurmdbd that SLURMLET_ACCOUNTS has led to",
		func(a *accounts.Status) []exposition.Sample { return exposition.Amount(a.Changes) },
	},
}

var ofLostJobs = []metric[savedstate.Status]{
	{
		"jobs_forgotten", "", "Jobs that slurmctld has forgotten by a crash, and whose directories nobody has removed",
		func(l *savedstate.Status) []exposition.Sample { return exposition.Amount(len(l.Lost)) },
	},
	{
		"jobs_run_again_total", "", "Jobs that run again because slurmctld has forgotten their start by a crash",
		func(l *savedstate.Status) []exposition.Sample { return exposition.Amount(l.AgainTotal) },
	},
}

var ofElastic = []metric[elastic.Status]{
	{
		"elastic_timestamp_seconds", "", "When slurmctld told its nodes last, for the elastic node sets",
		func(e *elastic.Status) []exposition.Sample { return exposition.Moment(e.Looked) },
	},
	{
		"elastic_refused", "", "1 while files of SLURMLET_ELASTIC_SETS cannot be used",
		func(e *elastic.Status) []exposition.Sample { return exposition.Whether(e.Fault != "") },
	},
	ofElasticSets("elastic_records", "Node records of an elastic set", func(s *elastic.SetStatus) int { return s.Records }),
	ofElasticSets("elastic_wanted", "Nodes of an elastic set that Slurm wants", func(s *elastic.SetStatus) int { return s.Wanted }),
	ofElasticSets("elastic_starting", "Nodes of an elastic set that Slurm wants and that are not up yet",
		func(s *elastic.SetStatus) int { return s.Starting }),
	ofElasticSets("elastic_failed", "Nodes of an elastic set that are DOWN because they did not start",
		func(s *elastic.SetStatus) int { return s.Failed }),
}

func ofElasticSets(name, help string, count func(*elastic.SetStatus) int) metric[elastic.Status] {
	return metric[elastic.Status]{name, "set", help, func(e *elastic.Status) (all []exposition.Sample) {
		for i := range e.Sets {
			all = append(all, exposition.Amount(count(&e.Sets[i]), e.Sets[i].Name)...)
		}
		return all
	}}
}

var ofConf = []metric[reconfig.Status]{
	{"config_info", "hash", "1, with the hash of the configuration in place", func(c *reconfig.Status) []exposition.Sample {
		if c.Live == "" {
			return nil
		}
		return exposition.Amount(1, c.Live)
	}},
	{
		"config_reloading", "", "1 while an edit is tried, or the last good configuration is put back",
		func(c *reconfig.Status) []exposition.Sample { return exposition.Whether(c.Doing != "") },
	},
	{
		"config_reloads_total", "outcome",
		"Edits by what became of them: taken, refused before slurmctld had them, or rolled_back after",
		func(c *reconfig.Status) []exposition.Sample {
			r := c.Reloads
			return slices.Concat(exposition.Amount(r.Taken, "taken"), exposition.Amount(r.Refused, "refused"),
				exposition.Amount(r.RolledBack, "rolled_back"))
		},
	},
	{
		"config_nodes_taken", "", "Nodes that have taken the last edit",
		func(c *reconfig.Status) []exposition.Sample { return exposition.Amount(c.Took) },
	},
	{
		"config_nodes_missed", "", "Nodes that have not taken the last edit; the status names them",
		func(c *reconfig.Status) []exposition.Sample { return exposition.Amount(len(c.Missed)) },
	},
	{
		"config_refused", "", "1 while the sources hold what cannot be used; the status says why",
		func(c *reconfig.Status) []exposition.Sample { return exposition.Whether(c.Refused != nil) },
	},
	{"config_refused_info", "file,line", "1, with the place of the first fault that has one", places},
	{
		"config_faults", "", "Reasons why the last good configuration is not back in place, or was not kept",
		func(c *reconfig.Status) []exposition.Sample { return exposition.Amount(len(c.Faults)) },
	},
}

// places has the place that a line of the refusal begins with, and nothing of what
// follows: the words may be anybody's.
func places(c *reconfig.Status) []exposition.Sample {
	if c.Refused == nil {
		return nil
	}
	for _, why := range c.Refused.Why {
		for _, source := range c.Sources {
			place, _, found := strings.Cut(strings.TrimPrefix(why, source+"/"), ": ")
			if found && strings.HasPrefix(why, source+"/") {
				return exposition.Amount(1, fileAndLine(place)...)
			}
		}
	}
	return nil
}

// fileAndLine reads file, file:line and file:line:column.
func fileAndLine(place string) []string {
	file, line := place, ""
	for range 2 {
		colon := strings.LastIndexByte(file, ':')
		if _, err := strconv.ParseUint(file[colon+1:], 10, 32); colon < 0 || err != nil {
			break
		}
		file, line = file[:colon], file[colon+1:]
	}
	return []string{file, line}
}

var ofReload = []metric[reconfig.Reload]{
	{
		"config_last_taken_timestamp_seconds", "", "When slurmctld and its nodes had taken the last edit",
		func(r *reconfig.Reload) []exposition.Sample { return exposition.Moment(r.At) },
	},
	{
		"config_last_taken_duration_seconds", "",
		"How long the last edit that was taken had needed, from when the agent read it",
		func(r *reconfig.Reload) []exposition.Sample { return exposition.Amount(r.Seconds) },
	},
}

var ofRefusal = []metric[reconfig.Refusal]{
	{
		"config_refused_timestamp_seconds", "", "When that was refused",
		func(r *reconfig.Refusal) []exposition.Sample { return exposition.Moment(r.Since) },
	},
}
