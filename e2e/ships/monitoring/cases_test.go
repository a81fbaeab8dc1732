package monitoring

import "time"

const minute = time.Minute

// healthySeries are those of a slurmctld, two nodes and a login pod over a day.
var healthySeries = []string{
	`up{pod="ctl",slurmlet_dev_role="slurmctld"} 1x1440`,
	`up{pod="n0",slurmlet_dev_role="slurmd"} 1x1440`,
	`slurmlet_build_info{pod="ctl",slurmlet_dev_role="slurmctld"} 1x1440`,
	`slurmlet_build_info{pod="n0",slurmlet_dev_role="slurmd"} 1x1440`,
	`slurmlet_ready{pod="ctl",slurmlet_dev_role="slurmctld"} 1x1440`,
	`slurmlet_ready{pod="n0",slurmlet_dev_role="slurmd"} 1x1440`,
	`slurmlet_agent_start_time_seconds{pod="ctl",slurmlet_dev_role="slurmctld"} 1000x1440`,
	`slurmlet_daemon_restarts_total{pod="n0"} 2x1440`,
	`slurmlet_config_refused{pod="ctl"} 0x1440`,
	`slurmlet_config_faults{pod="ctl"} 0x1440`,
	`slurmlet_accounts_refused{pod="ctl",reason="file"} 0x1440`,
	`slurmlet_config_missed{pod="n0"} 0x1440`,
	`slurmlet_config_nodes_missed{pod="ctl"} 0x1440`,
	`slurmlet_keys_refused{pod="ctl"} 0x1440`,
	`slurmlet_keys_info{pod="ctl",signs="slurm.key"} 1x1440`,
	`slurmlet_keys_info{pod="n0",signs="slurm.key"} 1x1440`,
	`slurmlet_keys_accepted{pod="ctl"} 1x1440`,
	`slurmlet_service_running{pod="login-0",service="sshd"} 1x1440`,
	`slurmlet_sack_crowded{pod="login-0"} 0x1440`,
	`slurmlet_users_limited{pod="login-0"} 1x1440`,
	`slurmlet_node_fault{pod="n0"} 0x1440`,
	`slurmlet_node_refused{pod="n0"} 0x1440`,
	`slurmlet_cgroup_enforced{pod="n0"} 1x1440`,
	`slurmlet_containers_ready{pod="n0"} 1x1440`,
	`slurmlet_steps_dead_total{pod="n0"} 4x1440`,
	`slurmlet_steps_oom_kills_total{pod="n0"} 4x1440`,
	`slurmlet_disk_full{pod="n0"} 0x1440`,
	`slurmlet_cluster_read_timestamp_seconds{family="nodes"} 0+60x1440`,
	`slurmlet_cluster_read_failed{family="nodes"} 0x1440`,
	`slurm_nodes 20x1440`,
	`slurm_nodes_down 0x1440`,
	`slurm_nodes_invalid_reg 0x1440`,
	`slurmlet_cluster_nodes_drained{kind="slurmlet"} 2x1440`,
	`slurmlet_elastic_refused{pod="ctl"} 0x1440`,
	`slurmlet_elastic_failed{pod="ctl",set="gpu"} 0x1440`,
	`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="10"} 0+1x1440`,
	`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="+Inf"} 0+1x1440`,
	`slurmlet_elastic_start_seconds_count{pod="ctl",set="gpu"} 0+1x1440`,
	`slurm_jobs_node_failed 0x1440`,
	`slurmlet_cluster_job_requeues_total{partition="all"} 7x1440`,
	`slurmlet_cluster_jobs_waiting{partition="all",reason="Priority"} 500x1440`,
	`slurmlet_cluster_jobs_waiting{partition="all",reason="Resources"} 5x1440`,
	`slurm_slurmdbd_queue_size 3x1440`,
	`slurm_schedule_cycle_tot 0+0.4x1440`,
	`slurm_schedule_cycle_cnt 0+20x1440`,
	`slurm_bf_cycle_tot 0+4x1440`,
	`slurm_bf_cycle_cnt 0+2x1440`,
	`slurm_server_thread_cnt 4x1440`,
	`slurmlet_cluster_rpcs_pending 0x1440`,
	`slurmlet_cluster_licenses_free{license="solver"} 0x1440`,
}

var cases = []instance{
	{"SlurmMetricsMissing", "nothing is scraped", 20 * minute, 1, nil, true},
	{"SlurmMetricsMissing", "one agent is scraped", 20 * minute, 0, []string{`slurmlet_build_info{pod="n0"} 1x30`}, false},

	{"SlurmPodsNotScraped", "a machine is away", 20 * minute, 1, []string{
		`up{pod="n0",slurmlet_dev_role="slurmd",slurmlet_dev_node_set="cpu"} 0x30`,
		`up{pod="n1",slurmlet_dev_role="slurmd",slurmlet_dev_node_set="cpu"} 0x30`,
	}, false},
	{"SlurmPodsNotScraped", "a machine starts again", 20 * minute, 0, []string{`up{pod="n0"} 1x2 0x8 1x30`}, false},

	{"SlurmctldUnreachable", "slurmctld waits for its volume", 10 * minute, 1, []string{
		`slurmlet_build_info{pod="n0"} 1x30`, `slurmlet_ready{pod="ctl",slurmlet_dev_role="slurmctld"} 1x2 0x30`,
	}, false},
	{"SlurmctldUnreachable", "slurmctld's pod is gone", 20 * minute, 1, []string{
		`slurmlet_build_info{pod="n0"} 1x30`, `slurmlet_ready{pod="ctl",slurmlet_dev_role="slurmctld"} 1x2 stale`,
	}, false},
	{"SlurmctldUnreachable", "slurmctld is rolled out", 20 * minute, 0, []string{
		`slurmlet_build_info{pod="n0"} 1x30`, `slurmlet_ready{pod="ctl",slurmlet_dev_role="slurmctld"} 1x2 0x3 1x30`,
	}, false},

	{"SlurmctldRestarting", "slurmctld ends each ten minutes", 50 * minute, 1, []string{
		`slurmlet_agent_start_time_seconds{pod="ctl",slurmlet_dev_role="slurmctld"} 100x9 700x9 1300x9 1900x30`,
	}, false},
	{"SlurmctldRestarting", "an image is rolled out", 50 * minute, 0, []string{
		`slurmlet_agent_start_time_seconds{pod="ctl",slurmlet_dev_role="slurmctld"} 100x9 700x50`,
	}, false},

	{"SlurmConfigRefused", "a typing error", 20 * minute, 1, []string{
		`slurmlet_config_refused{pod="ctl"} 1x30`, `slurmlet_config_refused_info{pod="ctl",file="slurm.conf",line="7"} 1x30`,
	}, false},
	{"SlurmLeaversWait", "three of five have left", 20 * minute, 1, []string{`slurmlet_leavers_waiting{pod="ctl"} 3x30`, `slurmlet_leavers_faults{pod="ctl"} 0x30`}, false},
	{"SlurmLeaversWait", "they are back", 20 * minute, 0, []string{`slurmlet_leavers_waiting{pod="ctl"} 3x2 0x30`, `slurmlet_leavers_faults{pod="ctl"} 0x30`}, false},
	{"SlurmJobsForgotten", "a crash has lost three jobs", 10 * minute, 1, []string{`slurmlet_jobs_forgotten{pod="ctl"} 0x3 3x30`}, false},
	{"SlurmJobsForgotten", "somebody has dealt with them", 10 * minute, 0, []string{`slurmlet_jobs_forgotten{pod="ctl"} 3x3 0x30`}, false},
	{"SlurmConfigRefused", "nodes refuse an edit, which has no line", 20 * minute, 1, []string{`slurmlet_config_refused{pod="ctl"} 1x30`}, false},
	{"SlurmConfigRefused", "an edit is repaired", 20 * minute, 0, []string{
		`slurmlet_config_refused{pod="ctl"} 1x5 0x30`, `slurmlet_config_refused_info{pod="ctl",file="slurm.conf",line="7"} 1x5 stale`,
	}, false},

	{"SlurmAccountsNotApplied", "many removals are not confirmed", 20 * minute, 1, []string{
		`slurmlet_accounts_refused{pod="ctl",reason="confirmation"} 1x30`, `slurmlet_accounts_refused{pod="ctl",reason="file"} 0x30`,
	}, false},
	{"SlurmAccountsNotApplied", "slurmdbd is away for some minutes", 20 * minute, 0, []string{`slurmlet_accounts_refused{pod="ctl",reason="slurmdbd"} 1x9 0x30`}, false},

	{"SlurmConfigNotRestored", "the volume is full", 10 * minute, 1, []string{`slurmlet_config_faults{pod="ctl"} 2x30`}, false},
	{"SlurmConfigNotRestored", "the second try succeeds", 10 * minute, 0, []string{`slurmlet_config_faults{pod="ctl"} 1x2 0x30`}, false},

	{"SlurmConfigMissed", "a login pod has another configuration", 20 * minute, 1, []string{`slurmlet_config_missed{pod="login-0"} 1x30`, `slurmlet_config_missed{pod="n0"} 0x30`}, false},
	{"SlurmConfigMissed", "slurmctld's agent knows of nodes", 20 * minute, 1, []string{`slurmlet_config_missed{pod="n0"} 0x30`, `slurmlet_config_nodes_missed{pod="ctl"} 3x30`}, false},
	{"SlurmConfigMissed", "nodes take an edit late", 20 * minute, 0, []string{`slurmlet_config_nodes_missed{pod="ctl"} 3x5 0x30`}, false},

	{"SlurmKeysRefused", "a Secret with another key", 20 * minute, 1, []string{`slurmlet_keys_refused{pod="ctl"} 1x30`, `slurmlet_keys_refused{pod="n0"} 1x30`}, false},
	{"SlurmKeysRefused", "the edits come in the wrong order for a moment", 20 * minute, 0, []string{`slurmlet_keys_refused{pod="ctl"} 1x3 0x30`}, false},

	{"SlurmKeysDiffer", "a pod has not got the rotation", 90 * minute, 1, []string{`slurmlet_keys_info{pod="ctl",signs="2026"} 1x120`, `slurmlet_keys_info{pod="n0",signs="slurm.key"} 1x120`}, false},
	{"SlurmKeysDiffer", "a rotation goes round", 90 * minute, 0, []string{
		`slurmlet_keys_info{pod="ctl",signs="2026"} 1x120`, `slurmlet_keys_info{pod="n0",signs="slurm.key"} 1x5 stale`, `slurmlet_keys_info{pod="n0",signs="2026"} _x5 1x120`,
	}, false},

	{"SlurmVersionVulnerable", "two pods with 24.11.5-4, and one that is mended", 90 * minute, 1, []string{
		`slurmlet_slurm_advisories{pod="ctl",version="24.11.5-4",kind="security",names="CVE-2026-65107"} 1x120`,
		`slurmlet_slurm_advisories{pod="n0",version="24.11.5-4",kind="security",names="CVE-2026-65107"} 1x120`,
		`slurmlet_slurm_advisories{pod="n1",version="24.11.5-4+deb13u1",kind="defect",names="slurmd-reconfigure-hang"} 1x120`,
	}, false},
	{"SlurmVersionVulnerable", "an upgrade goes round", 90 * minute, 0, []string{
		`slurmlet_slurm_advisories{pod="n0",version="24.11.5-4",kind="security",names="CVE-2026-65107"} 1x30 stale`,
	}, false},
	{"SlurmVersionUnsupported", "the last month is over", 90 * minute, 1, []string{
		`slurmlet_slurm_advisories{pod="ctl",version="24.11.5-4",kind="support",names="end-of-support"} _x5 1x120`,
	}, false},
	{"SlurmVersionUnsupported", "a mended version with security faults", 90 * minute, 0, []string{
		`slurmlet_slurm_advisories{pod="ctl",version="25.11.5",kind="security",names="CVE-2026-65107"} 1x120`,
	}, false},

	{"SlurmKeyExpires", "the only key", 10 * minute, 1, []string{`slurmlet_keys_first_expiry_timestamp_seconds{pod="ctl"} 500000x30`, `slurmlet_keys_accepted{pod="ctl"} 1x30`}, false},
	{"SlurmKeyExpires", "the old key of a rotation", 10 * minute, 0, []string{`slurmlet_keys_first_expiry_timestamp_seconds{pod="ctl"} 3600x30`, `slurmlet_keys_accepted{pod="ctl"} 2x30`}, false},
	{"SlurmKeyExpires", "in a month", 10 * minute, 0, []string{`slurmlet_keys_first_expiry_timestamp_seconds{pod="ctl"} 2592000x30`, `slurmlet_keys_accepted{pod="ctl"} 1x30`}, false},

	{"SlurmPodsNotReady", "nodes of two sets do not start", 20 * minute, 2, []string{
		`slurmlet_ready{pod="n0",slurmlet_dev_role="slurmd",slurmlet_dev_node_set="cpu"} 0x30`,
		`slurmlet_ready{pod="n1",slurmlet_dev_role="slurmd",slurmlet_dev_node_set="cpu"} 0x30`,
		`slurmlet_ready{pod="g0",slurmlet_dev_role="slurmd",slurmlet_dev_node_set="gpu"} 0x30`,
	}, false},
	{"SlurmPodsNotReady", "a deleted pod waits for its job", 20 * minute, 0, []string{
		`slurmlet_ready{pod="n0",slurmlet_dev_role="slurmd"} 0x30`, `slurmlet_state{pod="n0",state="Stopping"} 1x30`,
	}, false},
	{"SlurmPodsNotReady", "slurmctld has an alert of its own", 20 * minute, 0, []string{`slurmlet_ready{pod="ctl",slurmlet_dev_role="slurmctld"} 0x30`}, false},

	{"SlurmDaemonRestarting", "slurmd dies each five minutes", 40 * minute, 1, []string{`slurmlet_daemon_restarts_total{pod="n0"} 0x4 1x4 2x4 3x4 4x4 5x4 6x30`}, false},
	{"SlurmDaemonRestarting", "slurmd died once", 40 * minute, 0, []string{`slurmlet_daemon_restarts_total{pod="n0"} 0x4 1x50`}, false},

	{"SlurmServiceDown", "sssd cannot reach the directory", 10 * minute, 1, []string{`slurmlet_service_running{pod="login-0",service="sssd"} 0x30`}, false},
	{"SlurmServiceDown", "a login pod ends", 10 * minute, 0, []string{`slurmlet_service_running{pod="login-0",service="sshd"} 0x30`, `slurmlet_state{pod="login-0",state="Stopping"} 1x30`}, false},

	{"SlurmCredentialsCrowded", "a user holds silent connections", 10 * minute, 1, []string{`slurmlet_sack_crowded{pod="login-0"} 1x30`}, false},
	{"SlurmCredentialsCrowded", "a user had them for two minutes", 10 * minute, 0, []string{`slurmlet_sack_crowded{pod="login-0"} 0x4 1x2 0x30`}, false},

	{"SlurmLoginLimitsNotEnforced", "a machine mounts cgroups read-only", 20 * minute, 1, []string{`slurmlet_users_limited{pod="login-0"} 0x30`}, false},
	{"SlurmLoginLimitsNotEnforced", "a login pod is replaced by one with limits", 20 * minute, 0, []string{`slurmlet_users_limited{pod="login-0"} 0x4 1x30`}, false},

	{"SlurmNodeChangeNotFollowed", "slurmctld refuses a label", 20 * minute, 1, []string{`slurmlet_node_refused{pod="n0"} 1x30`, `slurmlet_node_fault{pod="n0"} 0x30`}, false},
	{"SlurmNodeChangeNotFollowed", "a limit is repaired", 20 * minute, 0, []string{`slurmlet_node_fault{pod="n0"} 1x4 0x30`}, false},

	{"SlurmLimitsNotEnforced", "a machine mounts cgroups read-only", 20 * minute, 1, []string{`slurmlet_cgroup_enforced{pod="n0"} 0x30`}, false},
	{"SlurmContainersUnavailable", "a machine's AppArmor denies mounts", 20 * minute, 1, []string{`slurmlet_containers_ready{pod="n0"} 0x30`, `slurmlet_containers_ready{pod="n1"} 0x30`}, false},
	{"SlurmContainersUnavailable", "the pod is replaced", 20 * minute, 0, []string{`slurmlet_containers_ready{pod="n0"} 0x4 stale`, `slurmlet_containers_ready{pod="n1"} 1x30`}, false},
	{"SlurmLimitsNotEnforced", "a node starts", 20 * minute, 0, []string{`slurmlet_cgroup_enforced{pod="n0"} 0x2 1x30`}, false},

	{"SlurmJobsOutlastGracePeriod", "a job of days on a node that is deleted", 20 * minute, 1, []string{
		`slurmlet_stopping_jobs{pod="n0"} 1x30`, `slurmlet_stopping_jobs_deadline_timestamp_seconds{pod="n0"} 1500x30`,
	}, false},
	{"SlurmJobsOutlastGracePeriod", "the jobs have hours", 20 * minute, 0, []string{
		`slurmlet_stopping_jobs{pod="n0"} 1x30`, `slurmlet_stopping_jobs_deadline_timestamp_seconds{pod="n0"} 20000x30`,
	}, false},
	{"SlurmJobsOutlastGracePeriod", "no job is left", 20 * minute, 0, []string{
		`slurmlet_stopping_jobs{pod="n0"} 0x30`, `slurmlet_stopping_jobs_deadline_timestamp_seconds{pod="n0"} 1500x30`,
	}, false},

	{"SlurmStopStuck", "a process does not end", 20 * minute, 1, []string{`slurmlet_stopping_deadline_timestamp_seconds{pod="n0"} 600x30`}, false},
	{"SlurmStopStuck", "a pod has time", 20 * minute, 0, []string{`slurmlet_stopping_deadline_timestamp_seconds{pod="n0"} 20000x30`}, false},

	{"SlurmStopIncomplete", "slurmctld did not answer to the end", 15 * minute, 1, []string{`slurmlet_stopping_left{pod="n0"} 0x3 stale`, `slurmlet_stopping_unanswered{pod="n0"} 0 1x2 stale`}, false},
	{"SlurmStopIncomplete", "slurmctld does not answer, and the pod has time", 15 * minute, 0, []string{`slurmlet_stopping_left{pod="n0"} 0x30`, `slurmlet_stopping_unanswered{pod="n0"} 1x30`}, false},
	{"SlurmStopIncomplete", "slurmctld was slow", 15 * minute, 0, []string{`slurmlet_stopping_left{pod="n0"} 0x3 stale`, `slurmlet_stopping_unanswered{pod="n0"} 1x2 0 stale`}, false},
	{"SlurmStopIncomplete", "slurmctld was away", 15 * minute, 1, []string{`slurmlet_stopping_left{pod="n0"} 0x3 1 stale`}, false},
	{"SlurmStopIncomplete", "the record is deleted", 15 * minute, 0, []string{`slurmlet_stopping_left{pod="n0"} 0x3 stale`}, false},
	{"SlurmStopIncomplete", "it was an hour ago", 75 * minute, 0, []string{`slurmlet_stopping_left{pod="n0"} 0x3 1 stale`}, false},

	{"SlurmStepsLost", "slurmstepd is killed", 20 * minute, 1, []string{`slurmlet_steps_dead_total{pod="n0",slurmlet_dev_node_set="cpu"} 0x10 1x30`}, false},
	{"SlurmStepsLost", "it was yesterday", 20 * minute, 0, []string{`slurmlet_steps_dead_total{pod="n0",slurmlet_dev_node_set="cpu"} 1x30`}, false},

	{"SlurmNodeDiskFull", "a job leaves most of the disk full", 20 * minute, 1, []string{`slurmlet_disk_full{pod="n0"} 0x3 1x30`}, false},
	{"SlurmNodeDiskFull", "the files are removed", 20 * minute, 0, []string{`slurmlet_disk_full{pod="n0"} 0x3 1x3 0x30`}, false},

	{"SlurmOOMKills", "a job array with too little memory", 20 * minute, 1, []string{`slurmlet_steps_oom_kills_total{pod="n0"} 0x4 5x4 12x4 20x30`}, false},
	{"SlurmOOMKills", "one job with too little memory", 20 * minute, 0, []string{`slurmlet_steps_oom_kills_total{pod="n0"} 0x4 1x30`}, false},

	{"SlurmViewOld", "slurmctld does not answer for jobs", 40 * minute, 1, []string{
		`slurmlet_cluster_read_timestamp_seconds{family="jobs"} 0x60`, `slurmlet_cluster_read_failed{family="jobs"} 0x2 1x60`,
		`slurmlet_cluster_read_timestamp_seconds{family="nodes"} 0+60x60`, `slurmlet_cluster_read_failed{family="nodes"} 0x60`,
	}, false},
	{"SlurmViewOld", "slurmctld has told nothing since its agent began", 40 * minute, 2, []string{
		`slurmlet_cluster_read_failed{family="jobs"} 1x60`, `slurmlet_cluster_read_failed{family="nodes"} 1x60`,
	}, false},
	{"SlurmViewOld", "one question fails", 40 * minute, 0, []string{`slurmlet_cluster_read_failed{family="jobs"} 0x20 1x10 0x30`}, false},
	{"SlurmViewOld", "slurmctld is asked each hour (controller.clusterInterval)", 50 * minute, 0, []string{
		`slurmlet_cluster_read_timestamp_seconds{family="jobs"} 0x60`, `slurmlet_cluster_read_failed{family="jobs"} 0x60`,
	}, false},

	{"SlurmNodesDown", "a machine lost its power", 20 * minute, 1, []string{`slurm_nodes_down 1x30`}, false},
	{"SlurmNodesDown", "a pod comes back", 20 * minute, 0, []string{`slurm_nodes_down 1x8 0x30`}, false},

	{"SlurmNodesDown", "jobs name nodes without pods", 20 * minute, 0, []string{`slurm_nodes_down 2x30`, `slurmlet_records_kept{pod="ctl"} 2x30`}, false},
	{"SlurmNodesDown", "and a machine lost its power", 20 * minute, 1, []string{`slurm_nodes_down 3x30`, `slurmlet_records_kept{pod="ctl"} 2x30`}, false},
	{"SlurmManyNodesDown", "jobs name nodes of a set that is scaled in", 10 * minute, 0, []string{`slurm_nodes_down 30x30`, `slurm_nodes 100x30`, `slurmlet_records_kept{pod="ctl"} 30x30`}, false},
	{"SlurmManyNodesDown", "a zone is away", 10 * minute, 1, []string{`slurm_nodes_down 30x30`, `slurm_nodes 100x30`}, false},
	{"SlurmManyNodesDown", "one of three", 10 * minute, 0, []string{`slurm_nodes_down 1x30`, `slurm_nodes 3x30`}, false},
	{"SlurmManyNodesDown", "three of a hundred", 10 * minute, 0, []string{`slurm_nodes_down 3x30`, `slurm_nodes 100x30`}, false},

	{"SlurmRegistrationRefused", "less memory than in slurm.conf", 20 * minute, 1, []string{`slurm_nodes_invalid_reg 2x30`}, false},
	{"SlurmRegistrationRefused", "a node registers anew", 20 * minute, 0, []string{`slurm_nodes_invalid_reg 2x3 0x30`}, false},

	{"SlurmNodesDrainedByFault", "a job that cannot be killed", 40 * minute, 1, []string{`slurmlet_cluster_nodes_drained{kind="kill_task"} 1x60`}, false},
	{"SlurmNodesDrainedByFault", "nodes that end, and one that somebody drained", 40 * minute, 0, []string{
		`slurmlet_cluster_nodes_drained{kind="slurmlet"} 3x60`, `slurmlet_cluster_nodes_drained{kind="other"} 1x60`,
	}, false},

	{"SlurmNodesDrainedLong", "a drain that was forgotten", 80 * time.Hour, 1, []string{`slurmlet_cluster_nodes_drained{kind="other"} 1x5000`}, false},
	{"SlurmNodesDrainedLong", "nodes that wait for their jobs", 80 * time.Hour, 0, []string{`slurmlet_cluster_nodes_drained{kind="slurmlet"} 1x5000`}, false},

	{"SlurmElasticSetRefused", "a set without a limit", 20 * minute, 1, []string{`slurmlet_elastic_refused{pod="ctl"} 1x30`}, false},
	{"SlurmElasticSetRefused", "an edit that is repaired", 20 * minute, 0, []string{`slurmlet_elastic_refused{pod="ctl"} 1x5 0x30`}, false},

	{"SlurmElasticNodesFail", "an image that there is not, in two sets", 30 * minute, 2, []string{
		`slurmlet_elastic_failed{pod="ctl",set="gpu"} 3x60`, `slurmlet_elastic_failed{pod="ctl",set="burst"} 1x60`, `slurmlet_elastic_failed{pod="ctl",set="cpu"} 0x60`,
	}, false},
	{"SlurmElasticNodesFail", "a quota that is raised", 30 * minute, 0, []string{`slurmlet_elastic_failed{pod="ctl",set="gpu"} 3x8 0x60`}, false},

	{"SlurmElasticStartsSlow", "machines come in seven minutes", 80 * minute, 1, []string{
		`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="300"} 0x120`, `slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="600"} 0+1x120`,
		`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="+Inf"} 0+1x120`, `slurmlet_elastic_start_seconds_count{pod="ctl",set="gpu"} 0+1x120`,
	}, false},
	{"SlurmElasticStartsSlow", "one of ten waits for a machine", 80 * minute, 0, []string{
		`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="10"} 0+9x120`, `slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="600"} 0+10x120`,
		`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="+Inf"} 0+10x120`, `slurmlet_elastic_start_seconds_count{pod="ctl",set="gpu"} 0+10x120`,
	}, false},
	{"SlurmElasticStartsSlow", "a single node", 80 * minute, 0, []string{
		`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="300"} 0x120`, `slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="600"} 0x60 1x60`,
		`slurmlet_elastic_start_seconds_bucket{pod="ctl",set="gpu",le="+Inf"} 0x60 1x60`, `slurmlet_elastic_start_seconds_count{pod="ctl",set="gpu"} 0x60 1x60`,
	}, false},

	{"SlurmJobsLost", "a machine lost its power", 5 * minute, 1, []string{`slurm_jobs_node_failed 0x2 3x30`}, false},
	{"SlurmJobsLost", "slurmctld has forgotten the jobs", 20 * minute, 0, []string{`slurm_jobs_node_failed 3x5 0x30`}, false},

	{"SlurmJobsRequeued", "a rollout with a short grace period", 30 * minute, 1, []string{`slurmlet_cluster_job_requeues_total{partition="all"} 0+5x60`}, false},
	{"SlurmJobsRequeued", "a few", 30 * minute, 0, []string{`slurmlet_cluster_job_requeues_total{partition="all"} 0x10 5x60`}, false},

	{"SlurmJobsWaitForNodes", "a partition is down", 3 * time.Hour, 1, []string{`slurmlet_cluster_jobs_waiting{partition="night",reason="PartitionDown"} 4x200`}, false},
	{"SlurmJobsWaitForNodes", "nodes of a partition are down", 3 * time.Hour, 1, []string{
		`slurmlet_cluster_jobs_waiting{partition="gpu",reason="NodesDownOrReserved"} 4x200`, `slurm_nodes_down 2x200`, `slurm_nodes_drain 0x200`,
	}, false},
	{"SlurmJobsWaitForNodes", "nodes of two partitions are drained", 3 * time.Hour, 2, []string{
		`slurmlet_cluster_jobs_waiting{partition="gpu",reason="NodesDownOrReserved"} 4x200`, `slurmlet_cluster_jobs_waiting{partition="cpu",reason="NodesDownOrReserved"} 1x200`,
		`slurm_nodes_down 0x200`, `slurm_nodes_drain 1x200`,
	}, false},
	{"SlurmJobsWaitForNodes", "a partition of higher priority has the nodes", 3 * time.Hour, 0, []string{
		`slurmlet_cluster_jobs_waiting{partition="low",reason="NodesDownOrReserved"} 4x200`, `slurm_nodes_down 0x200`, `slurm_nodes_drain 0x200`,
	}, false},
	{"SlurmJobsWaitForNodes", "the cluster is full", 3 * time.Hour, 0, []string{`slurmlet_cluster_jobs_waiting{partition="all",reason="Resources"} 4x200`}, false},

	{"SlurmJobsCannotRun", "an account that there is not", 13 * time.Hour, 1, []string{`slurmlet_cluster_jobs_waiting{partition="all",reason="InvalidAccount"} 1x900`}, false},
	{"SlurmJobsCannotRun", "the cluster is full", 13 * time.Hour, 0, []string{`slurmlet_cluster_jobs_waiting{partition="all",reason="Priority"} 1x900`}, false},

	{"SlurmdbdQueueGrows", "slurmdbd is away", 60 * minute, 1, []string{`slurm_slurmdbd_queue_size 0+100x90`}, false},
	{"SlurmdbdQueueGrows", "slurmdbd is back and takes the records", 60 * minute, 0, []string{`slurm_slurmdbd_queue_size 9000-100x90`}, false},
	{"SlurmdbdQueueGrows", "slurmdbd is restarted", 60 * minute, 0, []string{`slurm_slurmdbd_queue_size 0+10x20 0x60`}, false},

	{"SlurmSchedulerSlow", "100,000 jobs wait", 60 * minute, 1, []string{`slurm_schedule_cycle_tot 0+40x90`, `slurm_schedule_cycle_cnt 0+20x90`}, false},
	{"SlurmSchedulerSlow", "cycles of 20 ms, and a reset of sdiag", 60 * minute, 0, []string{`slurm_schedule_cycle_tot 100+0.4x30 0+0.4x60`, `slurm_schedule_cycle_cnt 5000+20x30 0+20x60`}, false},

	{"SlurmBackfillSlow", "a window of a month", 120 * minute, 1, []string{`slurm_bf_cycle_tot 0+58x150`, `slurm_bf_cycle_cnt 0+0.3x150`}, false},
	{"SlurmBackfillSlow", "cycles of two seconds", 120 * minute, 0, []string{`slurm_bf_cycle_tot 0+4x150`, `slurm_bf_cycle_cnt 0+2x150`}, false},

	{"SlurmctldBusy", "squeue in a loop", 15 * minute, 1, []string{`slurm_server_thread_cnt 250x30`, `slurmlet_cluster_rpcs_pending 0x30`}, false},
	{"SlurmctldBusy", "a burst", 15 * minute, 0, []string{`slurm_server_thread_cnt 250x3 5x30`, `slurmlet_cluster_rpcs_pending 0x30`}, false},

	{"SlurmLicensesExhausted", "jobs wait for licenses", 70 * minute, 1, []string{
		`slurmlet_cluster_licenses_free{license="solver"} 0x90`, `slurmlet_cluster_licenses_free{license="other"} 3x90`, `slurmlet_cluster_jobs_waiting{partition="all",reason="Licenses"} 2x90`,
	}, false},
	{"SlurmLicensesExhausted", "nobody waits for them", 70 * minute, 0, []string{`slurmlet_cluster_licenses_free{license="solver"} 0x90`, `slurmlet_cluster_jobs_waiting{partition="all",reason="Priority"} 2x90`}, false},
}
