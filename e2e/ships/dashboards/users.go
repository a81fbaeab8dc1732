package main

// usersBoard has the names of users and accounts. It is empty unless slurmctld's agent is told to
// tell them.
var usersBoard = dashboard{
	name: "users", title: "Slurm / Users", about: "Jobs, usage and fair share of the users and accounts with the most jobs",
	variables: []variable{namespaceVariable, clusterVariable},
	rows: []row{
		{"Users", []panel{
			area("CPUs in use", "", "short", query{"topk(20, " + sum("slurm_user_jobs_cpus_alloc", "username") + ")", "{{username}}"}),
			area("Jobs that wait", "", "short", query{"topk(20, " + sum("slurm_user_jobs_pending", "username") + ")", "{{username}}"}),
			{kind: table, title: "Users", width: 24, height: large, units: map[string]string{"Memory": "bytes"}, queries: []query{
				{sum("slurm_user_jobs_running", "username"), "Jobs that run"},
				{sum("slurm_user_jobs_pending", "username"), "Jobs that wait"},
				{sum("slurm_user_jobs_hold", "username"), "Held"},
				{sum("slurm_user_jobs_cpus_alloc", "username"), "CPUs"},
				{sum("slurm_user_jobs_gpus_alloc", "username"), "GPUs"},
				{sum("slurm_user_jobs_memory_alloc", "username"), "Memory"},
				{sum("slurm_user_jobs_nodes_alloc", "username"), "Nodes"},
			}},
		}},
		{"Accounts", []panel{
			area("CPUs in use", "", "short", query{"topk(20, " + sum("slurm_account_jobs_cpus_alloc", "account") + ")", "{{account}}"}),
			area("GPUs in use", "", "short", query{"topk(20, " + sum("slurm_account_jobs_gpus_alloc", "account") + ")", "{{account}}"}),
			{kind: table, title: "Accounts", width: 24, height: large, units: map[string]string{"Memory": "bytes"}, queries: []query{
				{sum("slurm_account_jobs_running", "account"), "Jobs that run"},
				{sum("slurm_account_jobs_pending", "account"), "Jobs that wait"},
				{sum("slurm_account_jobs_cpus_alloc", "account"), "CPUs"},
				{sum("slurm_account_jobs_gpus_alloc", "account"), "GPUs"},
				{sum("slurm_account_jobs_memory_alloc", "account"), "Memory"},
			}},
		}},
		{"Fair share (slurmdbd)", []panel{
			{kind: table, title: "Associations", help: "Those with the most usage (sshare)", width: 24, height: large, units: map[string]string{"Usage": "s", "Share": "percentunit", "Of all usage": "percentunit"}, queries: []query{
				{sum("slurmlet_cluster_share_fair_share", "account", "user"), "Fair share"},
				{sum("slurmlet_cluster_share_shares_ratio", "account", "user"), "Share"},
				{sum("slurmlet_cluster_share_usage_ratio", "account", "user"), "Of all usage"},
				{sum("slurmlet_cluster_share_usage_cpu_seconds", "account", "user"), "Usage"},
			}},
			line("Usage by account", "In CPU seconds, which decay (PriorityDecayHalfLife)", "s", query{"max by (account) (" + of("slurmlet_cluster_share_usage_cpu_seconds", `user=""`) + ")", "{{account}}"}),
		}},
	},
}
