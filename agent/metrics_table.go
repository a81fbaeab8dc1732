package agent

import (
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/podnames"
	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/pod/mainprocess"
	"github.com/slurmlet/slurmlet/internal/pod/people"
	"github.com/slurmlet/slurmlet/internal/pod/services"
)

// ofSlurm are those of what is known of the daemon's Slurm. One series has all advisories of a kind: 10,000 nodes would
// have 100,000 otherwise.
var ofSlurm = []metric[releases.Report]{
	{
		"slurm_info", "version,mended_by,mended_until", "1, with the version of the daemon's Slurm, and who mends it until which month",
		func(r *releases.Report) []sample { return amount(1, r.Version, r.MendedBy, r.MendedUntil) },
	},
	{
		"slurm_advisories", "version,kind,names",
		"How many known faults the daemon's Slurm has of a kind (security, defect or support), with their names; no series without one",
		func(r *releases.Report) (all []sample) {
			for _, kind := range releases.Kinds {
				if names := r.Names(kind); len(names) > 0 {
					all = append(all, amount(len(names), r.Version, string(kind), strings.Join(names, " "))...)
				}
			}
			return all
		},
	},
}

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

var ofKeys = []metric[authkeys.KeysStatus]{
	{
		"keys_info", "signs", "1, with the name of the key of auth/slurm that signs",
		func(k *authkeys.KeysStatus) []sample { return amount(1, k.Signs) },
	},
	{"keys_accepted", "", "Keys that the daemon accepts", func(k *authkeys.KeysStatus) []sample { return amount(len(k.Accepts)) }},
	{"keys_timestamp_seconds", "", "When the keys were put in place", func(k *authkeys.KeysStatus) []sample { return moment(k.Since) }},
	{
		"keys_first_expiry_timestamp_seconds", "", "When the first of the keys expires, if one does",
		func(k *authkeys.KeysStatus) []sample { return moment(k.FirstExpiry()) },
	},
	{
		"keys_refused", "", "1 while the mounted keys are others, which cannot be used",
		func(k *authkeys.KeysStatus) []sample { return whether(k.Refused != "") },
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

var ofLeavers = []metric[people.Status]{
	{
		"leavers_waiting", "", "People who have left, and whose sessions or jobs go on until somebody confirms it; the status names them",
		func(l *people.Status) []sample { return amount(len(l.Waiting)) },
	},
	{
		"leavers_faults", "", "1 while the agent cannot tell who has left, or cannot end what they have here; the status says why",
		func(l *people.Status) []sample { return whether(l.Why != "") },
	},
	{
		"leavers_ended_total", "", "People who have left, and whose sessions (login) or jobs (slurmctld) were ended",
		func(l *people.Status) []sample { return amount(l.Ended) },
	},
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

var ofCopy = []metric[Status]{
	{
		"config_missed", "", "1 while the daemon has another configuration than slurmctld, in spite of restarts",
		func(s *Status) []sample { return whether(s.ConfFault != "") },
	},
}

var ofLogin = []metric[Status]{
	{"sessions", "", "Users' sessions", func(s *Status) []sample { return amount(len(s.Sessions)) }},
	{
		"users_limited", "",
		"1 if each user has a cgroup with limits, 0 if one of them can take all of the pod; no series where cgroups are left alone",
		func(s *Status) []sample {
			if s.Users == nil {
				return nil
			}
			return whether(s.Users.Fault == "")
		},
	},
	{"service_running", "service", "1 while the service serves: sshd, sssd", func(s *Status) []sample {
		return ofEach(s.Services, func(one services.Status) []sample { return whether(one.State == services.Running, one.Name) })
	}},
	{"service_restarts_total", "service", "Starts of the service after the first", func(s *Status) []sample {
		return ofEach(s.Services, func(one services.Status) []sample { return amount(one.Restarts, one.Name) })
	}},
}
