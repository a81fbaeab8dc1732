package main

// agents is about slurmlet itself: every pod's agent.
var agents = dashboard{
	name: "slurmlet", title: "Slurm / slurmlet", about: "The agents of all pods: their states, edits of slurm.conf, keys, and pods that end",
	variables: []variable{namespaceVariable, clusterVariable},
	rows: []row{
		{"Pods", []panel{
			{kind: figure, title: "Ready", help: "Pods whose daemon does its work", width: 4, height: small, unit: "short", queries: []query{
				{`sum(slurmlet_ready{` + ofCluster + `})`, ""},
			}},
			{kind: figure, title: "Not Ready", help: "Without the pods that end", width: 4, height: small, unit: "short", bad: above(0), queries: []query{
				{`count(slurmlet_ready{` + ofCluster + `} == 0 unless on (namespace, pod) slurmlet_state{` + ofCluster + `,state="Stopping"} == 1) or vector(0)`, ""},
			}},
			{kind: figure, title: "Ending", help: "Pods that got SIGTERM", width: 4, height: small, unit: "short", queries: []query{
				{`sum(slurmlet_state{` + ofCluster + `,state="Stopping"})`, ""},
			}},
			{kind: figure, title: "Jobs that pods wait for", help: "Jobs on nodes whose pods were deleted", width: 4, height: small, unit: "short", queries: []query{
				{`sum(slurmlet_stopping_jobs{` + ofCluster + `}) or vector(0)`, ""},
			}},
			{kind: figure, title: "Daemons started again", help: "In the last hour", width: 4, height: small, unit: "short", bad: above(3), queries: []query{
				{`round(sum(increase(slurmlet_daemon_restarts_total{` + ofCluster + `}[1h])))`, ""},
			}},
			{kind: figure, title: "Log lines lost", help: "Lines that nobody read in time, in the last hour", width: 4, height: small, unit: "short", bad: above(0), queries: []query{
				{`round(sum(increase(slurmlet_log_lines_lost_total{` + ofCluster + `}[1h])))`, ""},
			}},
			{kind: graph, title: "States", help: "Pods in each state", width: 12, height: large, unit: "short", stacked: true, queries: []query{
				{`sum by (state) (slurmlet_state{` + ofCluster + `})`, "{{state}}"},
			}},
			{kind: graph, title: "Ready by role", width: 12, height: large, unit: "short", stacked: true, queries: []query{
				{`sum by (slurmlet_dev_role, slurmlet_dev_node_set) (slurmlet_ready{` + ofCluster + `})`, "{{slurmlet_dev_role}} {{slurmlet_dev_node_set}}"},
			}},
			{kind: figure, title: "Jobs forgotten", help: "Jobs that slurmctld has forgotten by a crash, until somebody has dealt with them", width: 6, height: large, unit: "short", bad: above(0), queries: []query{
				{`max(slurmlet_jobs_forgotten{` + ofCluster + `})`, ""},
				{`sum(increase(slurmlet_jobs_run_again_total{` + ofCluster + `}[1h]))`, "run again"},
				{`sum(slurmlet_daemon_losses_total{` + ofCluster + `})`, "lines of slurmctld's about lost jobs"},
			}},
			{kind: table, title: "Versions", help: "Agents by slurmlet's version", width: 6, height: large, queries: []query{
				{`count by (version, role) (slurmlet_build_info{` + ofCluster + `})`, ""},
			}},
			{kind: table, title: "Slurm", help: "Pods by the version of Slurm, and until which month it is mended", width: 6, height: large, queries: []query{
				{`count by (version, mended_by, mended_until) (slurmlet_slurm_info{` + ofCluster + `})`, ""},
			}},
			{kind: table, title: "Known faults of Slurm", help: "Pods by the version of Slurm, with its known faults", width: 6, height: large, queries: []query{
				{`count by (version, kind, names) (slurmlet_slurm_advisories{` + ofCluster + `})`, ""},
			}},
			{kind: graph, title: "Daemons started again, by pod", width: 12, height: large, unit: "short", queries: []query{
				{`increase(slurmlet_daemon_restarts_total{` + ofCluster + `}[1h]) > 0 or topk(1, increase(slurmlet_daemon_restarts_total{` + ofCluster + `}[1h]))`, "{{pod}}"},
			}},
		}},
		{"Edits of slurm.conf", []panel{
			{kind: figure, title: "Edit refused", help: "1 while an edit is not live", width: 4, height: small, unit: "short", bad: above(0), queries: []query{
				{`max(slurmlet_config_refused{` + ofCluster + `})`, ""},
			}},
			{kind: figure, title: "Not restored", help: "Reasons why the last good configuration is not in place", width: 4, height: small, unit: "short", bad: above(0), queries: []query{
				{`max(slurmlet_config_faults{` + ofCluster + `})`, ""},
			}},
			{kind: figure, title: "Nodes with another configuration", width: 4, height: small, unit: "short", bad: above(0), queries: []query{
				{`max(slurmlet_config_nodes_missed{` + ofCluster + `})`, ""},
			}},
			{kind: figure, title: "Nodes that took the last edit", width: 4, height: small, unit: "short", queries: []query{
				{`max(slurmlet_config_nodes_taken{` + ofCluster + `})`, ""},
			}},
			{kind: figure, title: "The last edit took", width: 4, height: small, unit: "s", queries: []query{
				{`max(slurmlet_config_last_taken_duration_seconds{` + ofCluster + `})`, ""},
			}},
			{kind: figure, title: "Live since", width: 4, height: small, unit: "dateTimeFromNow", queries: []query{
				{`max(slurmlet_config_last_taken_timestamp_seconds{` + ofCluster + `}) * 1000`, ""},
			}},
			{kind: graph, title: "Edits", help: "In each hour, by what became of them", width: 12, height: large, unit: "short", queries: []query{
				{`sum by (outcome) (increase(slurmlet_config_reloads_total{` + ofCluster + `}[1h]))`, "{{outcome}}"},
			}},
			{kind: table, title: "Configurations in place", help: "By their hash, which slurmlet status shows", width: 12, height: large, queries: []query{
				{`slurmlet_config_info{` + ofCluster + `}`, ""},
			}},
		}},
		{"Keys", []panel{
			{kind: table, title: "Keys that pods sign with", help: "More than one while keys are rotated", width: 12, height: large, queries: []query{
				{`count by (signs) (slurmlet_keys_info{` + ofCluster + `})`, ""},
			}},
			{kind: graph, title: "Pods that refuse the mounted keys", width: 12, height: large, unit: "short", queries: []query{
				{`sum(slurmlet_keys_refused{` + ofCluster + `})`, "refuse"},
			}},
		}},
		{"Login pods", []panel{
			{kind: figure, title: "Without limits for users", help: "Login pods in which one user can take all memory and processes", width: 6, height: small, unit: "short", bad: above(0), queries: []query{
				{`count(slurmlet_users_limited{` + ofCluster + `} == 0) or vector(0)`, ""},
			}},
			{kind: graph, title: "Sessions", help: "Those who are logged in by ssh", width: 18, height: small, unit: "short", stacked: true, queries: []query{
				{`sum by (pod) (slurmlet_sessions{` + ofCluster + `})`, "{{pod}}"},
			}},
		}},
	},
}
