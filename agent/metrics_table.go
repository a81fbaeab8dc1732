package agent

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/podnames"
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/pod/mainprocess"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elasticnodes"
	"github.com/slurmlet/slurmlet/internal/slurmctld/keptrecords"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/records"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
)

// ofAll are the metrics of every container. docs/reference/metrics-list.md lists them all.
var ofAll = []metric[Status]{
	{
		"build_info", "version,role", "1, with slurmlet's version and the container's role",
		func(s *Status) []sample { return amount(1, s.Version, string(s.Role)) },
	},
	{"agent_start_time_seconds", "", "When the agent, and the container, was started", func(s *Status) []sample { return moment(s.Began) }},
	{"state", "state", "1 for the state that the container is in, 0 for the others", states},
	{"state_start_time_seconds", "", "When the container came into this state", func(s *Status) []sample { return moment(s.Since) }},
	{
		"ready", "", "1 while the daemon does its work, and every service beside it: /readyz succeeds",
		func(s *Status) []sample { return whether(s.Serving()) },
	},
	{"started", "", "1 once the container has been Ready: /startupz succeeds", func(s *Status) []sample { return whether(s.Started) }},
	{"daemon_running", "", "1 while there is a main process", func(s *Status) []sample { return whether(s.Main != nil) }},
	{
		"daemon_restarts_total", "", "Starts of the daemon after the first, without its hand-overs to a new process",
		func(s *Status) []sample { return amount(s.Restarts) },
	},
	{"log_lines_lost_total", "", "Lines of the log that nobody read in time", func(s *Status) []sample { return amount(s.LinesLost) }},
}

func states(s *Status) []sample {
	all := []supervisor.Phase{
		supervisor.Starting, supervisor.Ready, supervisor.Reloading, supervisor.Resizing,
		supervisor.Stopping, supervisor.Exited,
	}
	return ofEach(all, func(state supervisor.Phase) []sample { return whether(s.State == state, string(state)) })
}

var ofMain = []metric[MainStatus]{
	{"daemon_start_time_seconds", "", "When the main process began", func(m *MainStatus) []sample { return moment(m.Since) }},
}

var ofLastError = []metric[mainprocess.Words]{
	{
		"daemon_last_error_timestamp_seconds", "", "When the daemon's last line that was an error came",
		func(e *mainprocess.Words) []sample { return moment(e.At) },
	},
}

var ofLosses = []metric[slurmctld.LossStatus]{
	{
		"daemon_losses_total", "", "Lines in which slurmctld has said that it has lost a job, or its state",
		func(l *slurmctld.LossStatus) []sample { return amount(l.Count) },
	},
}

var ofKeys = []metric[authkeys.Status]{
	{
		"keys_info", "signs", "1, with the name of the key of auth/slurm that signs",
		func(k *authkeys.Status) []sample { return amount(1, k.Signs) },
	},
	{"keys_accepted", "", "Keys that the daemon accepts", func(k *authkeys.Status) []sample { return amount(len(k.Accepts)) }},
	{"keys_timestamp_seconds", "", "When the keys were put in place", func(k *authkeys.Status) []sample { return moment(k.Since) }},
	{
		"keys_first_expiry_timestamp_seconds", "", "When the first of the keys expires, if one does",
		func(k *authkeys.Status) []sample { return moment(k.FirstExpiry()) },
	},
	{
		"keys_refused", "", "1 while the mounted keys are others, which cannot be used",
		func(k *authkeys.Status) []sample { return whether(k.Refused != "") },
	},
}

var ofPeers = []metric[podnames.Status]{
	{
		"peers_connected", "", "1 while the stream from slurmlet's controller stands",
		func(p *podnames.Status) []sample { return whether(p.Connected) },
	},
	{
		"peers_streams_total", "", "Streams from slurmlet's controller that began",
		func(p *podnames.Status) []sample { return amount(p.Streams) },
	},
	{
		"peers_timestamp_seconds", "", "When the table of the peers was last known to be right",
		func(p *podnames.Status) []sample { return moment(p.Updated) },
	},
	{"peers", "", "Pods of the cluster in the last table", func(p *podnames.Status) []sample { return amount(p.Peers) }},
	{
		"peers_names_taken", "", "Names of peers that other lines of /etc/hosts have with another address",
		func(p *podnames.Status) []sample { return amount(len(p.Taken)) },
	},
	{
		"peers_names_missing", "", "1 while the agent cannot write peers' names into /etc/hosts",
		func(p *podnames.Status) []sample { return whether(p.HostsFault != "") },
	},
}

var ofRecords = []metric[records.Status]{
	{
		"records_timestamp_seconds", "", "When slurmctld told its nodes last, for slurmlet's controller",
		func(r *records.Status) []sample { return moment(r.Looked) },
	},
	{"records_nodes", "state", "Nodes as slurmlet's controller is told of them", func(r *records.Status) []sample {
		return slices.Concat(amount(r.Idle, "idle"), amount(r.Busy, "busy"), amount(r.Absent, "absent"))
	}},
	{
		"records_waiting", "", "Pods of nodes that are gone whose records stay for now",
		func(r *records.Status) []sample { return amount(r.Waiting) },
	},
	{
		"records_deleted_total", "", "Records deleted because their pods are gone",
		func(r *records.Status) []sample { return amount(r.Deleted) },
	},
	{
		"records_lost_total", "", "Nodes set DOWN because their machines are gone",
		func(r *records.Status) []sample { return amount(r.Lost) },
	},
}

var ofKeptRecords = []metric[keptrecords.Status]{
	{
		"records_kept", "", "Records that stay without a pod: somebody names the nodes, or the pods are made again",
		func(k *keptrecords.Status) []sample { return amount(k.Count) },
	},
	{
		"records_kept_deleted_total", "", "Records deleted that had stayed without a pod",
		func(k *keptrecords.Status) []sample { return amount(k.Deleted) },
	},
}

var ofLostJobs = []metric[savedstate.Status]{
	{
		"jobs_forgotten", "", "Jobs that slurmctld has forgotten by a crash, and whose directories nobody has removed",
		func(l *savedstate.Status) []sample { return amount(len(l.Lost)) },
	},
	{
		"jobs_run_again_total", "", "Jobs that run again because slurmctld has forgotten their start by a crash",
		func(l *savedstate.Status) []sample { return amount(l.AgainTotal) },
	},
}

var ofElastic = []metric[elasticnodes.Status]{
	{
		"elastic_timestamp_seconds", "", "When slurmctld told its nodes last, for the elastic node sets",
		func(e *elasticnodes.Status) []sample { return moment(e.Looked) },
	},
	{
		"elastic_refused", "", "1 while files of SLURMLET_ELASTIC_SETS cannot be used",
		func(e *elasticnodes.Status) []sample { return whether(e.Fault != "") },
	},
	ofElasticSets("elastic_records", "Node records of an elastic set", func(s *elasticnodes.SetStatus) int { return s.Records }),
	ofElasticSets("elastic_wanted", "Nodes of an elastic set that Slurm wants", func(s *elasticnodes.SetStatus) int { return s.Wanted }),
	ofElasticSets("elastic_starting", "Nodes of an elastic set that Slurm wants and that are not up yet",
		func(s *elasticnodes.SetStatus) int { return s.Starting }),
	ofElasticSets("elastic_failed", "Nodes of an elastic set that are DOWN because they did not start",
		func(s *elasticnodes.SetStatus) int { return s.Failed }),
}

func ofElasticSets(name, help string, count func(*elasticnodes.SetStatus) int) metric[elasticnodes.Status] {
	return metric[elasticnodes.Status]{name, "set", help, func(e *elasticnodes.Status) (all []sample) {
		for i := range e.Sets {
			all = append(all, amount(count(&e.Sets[i]), e.Sets[i].Name)...)
		}
		return all
	}}
}

var ofStopping = []metric[StoppingStatus]{
	{"stopping_start_time_seconds", "", "When SIGTERM came", func(s *StoppingStatus) []sample { return moment(s.Since) }},
	{
		"stopping_deadline_timestamp_seconds", "", "When the agent exits at the latest",
		func(s *StoppingStatus) []sample { return moment(s.Until) },
	},
	{
		"stopping_jobs_deadline_timestamp_seconds", "", "When jobs that still run are requeued or fail (slurmd)",
		func(s *StoppingStatus) []sample {
			if s.JobsUntil == nil {
				return nil
			}
			return moment(*s.JobsUntil)
		},
	},
	{"stopping_jobs", "", "Jobs that the end waits for (slurmd)", func(s *StoppingStatus) []sample { return amount(len(s.Jobs)) }},
	{
		"stopping_unanswered", "",
		"1 while slurmctld does not answer: if it goes on, the node record or jobs will be left",
		func(s *StoppingStatus) []sample { return whether(s.Unanswered) },
	},
	{
		"stopping_left", "", "1 if something could not be done in time, and the node record or jobs may be left",
		func(s *StoppingStatus) []sample { return whether(s.Left != "") },
	},
}

var ofConf = []metric[reconfig.Status]{
	{"config_info", "hash", "1, with the hash of the configuration in place", func(c *reconfig.Status) []sample {
		if c.Live == "" {
			return nil
		}
		return amount(1, c.Live)
	}},
	{
		"config_reloading", "", "1 while an edit is tried, or the last good configuration is put back",
		func(c *reconfig.Status) []sample { return whether(c.Doing != "") },
	},
	{
		"config_reloads_total", "outcome",
		"Edits by what became of them: taken, refused before slurmctld had them, or rolled_back after", func(c *reconfig.Status) []sample {
			r := c.Reloads
			return slices.Concat(amount(r.Taken, "taken"), amount(r.Refused, "refused"), amount(r.RolledBack, "rolled_back"))
		},
	},
	{"config_nodes_taken", "", "Nodes that have taken the last edit", func(c *reconfig.Status) []sample { return amount(c.Took) }},
	{
		"config_nodes_missed", "", "Nodes that have not taken the last edit; the status names them",
		func(c *reconfig.Status) []sample { return amount(len(c.Missed)) },
	},
	{
		"config_refused", "", "1 while the sources hold what cannot be used; the status says why",
		func(c *reconfig.Status) []sample { return whether(c.Refused != nil) },
	},
	{"config_refused_info", "file,line", "1, with the place of the first fault that has one", places},
	{
		"config_faults", "", "Reasons why the last good configuration is not back in place, or was not kept",
		func(c *reconfig.Status) []sample { return amount(len(c.Faults)) },
	},
}

// places has the place that a line of the refusal begins with, and nothing of what
// follows: the words may be anybody's.
func places(c *reconfig.Status) []sample {
	if c.Refused == nil {
		return nil
	}
	for _, why := range c.Refused.Why {
		for _, source := range c.Sources {
			place, _, found := strings.Cut(strings.TrimPrefix(why, source+"/"), ": ")
			if found && strings.HasPrefix(why, source+"/") {
				return amount(1, fileAndLine(place)...)
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
		func(r *reconfig.Reload) []sample { return moment(r.At) },
	},
	{
		"config_last_taken_duration_seconds", "",
		"How long the last edit that was taken had needed, from when the agent read it",
		func(r *reconfig.Reload) []sample { return amount(r.Seconds) },
	},
}

var ofRefusal = []metric[reconfig.Refusal]{
	{"config_refused_timestamp_seconds", "", "When that was refused", func(r *reconfig.Refusal) []sample { return moment(r.Since) }},
}

var ofCopy = []metric[Status]{
	{
		"config_missed", "", "1 while the daemon has another configuration than slurmctld, in spite of restarts",
		func(s *Status) []sample { return whether(s.ConfFault != "") },
	},
}

var ofLogin = []metric[Status]{
	{"sessions", "", "Users' sessions", func(s *Status) []sample { return amount(len(s.Sessions)) }},
	{"service_running", "service", "1 while the service serves: sshd, sssd", func(s *Status) []sample {
		return ofEach(s.Services, func(one login.ServiceStatus) []sample { return whether(one.State == login.Running, one.Name) })
	}},
	{"service_restarts_total", "service", "Starts of the service after the first", func(s *Status) []sample {
		return ofEach(s.Services, func(one login.ServiceStatus) []sample { return amount(one.Restarts, one.Name) })
	}},
}
