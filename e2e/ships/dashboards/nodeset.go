package main

// Variables of node sets and nodes.
var (
	nodeSetVariable = variable{name: "node_set", title: "Node set", metric: "slurmlet_node_info{" + ofCluster + "}", label: "slurmlet_dev_node_set", all: true}
	nodeVariable    = variable{name: "node", title: "Node", metric: "slurmlet_node_info{" + ofCluster + "}", label: "node"}
	podVariable     = variable{name: "pod", title: "Pod", metric: "slurmlet_node_info{" + ofCluster + `,node="$node"}`, label: "pod"}
)

// inSet are matchers of the series of the pods in the node sets that the reader has chosen.
const inSet = `slurmlet_dev_node_set=~"$node_set"`

// nodesOfSet takes what slurmctld tells of each node to the node's set, which the node's own agent
// knows.
func nodesOfSet(metric string) string {
	return "sum by (slurmlet_dev_node_set) (" + of(metric) + " * on (node) group_left (slurmlet_dev_node_set) max by (node, slurmlet_dev_node_set) (" + of("slurmlet_node_info", inSet) + "))"
}

// bySet adds up a metric of the nodes' agents.
func bySet(metric string, matchers ...string) string {
	return "sum by (slurmlet_dev_node_set) (" + of(metric, append([]string{inSet}, matchers...)...) + ")"
}

// rateBySet is how fast a counter of the nodes' agents grows.
func rateBySet(metric string) string {
	return "sum by (slurmlet_dev_node_set) (rate(" + of(metric, inSet) + "[$__rate_interval]))"
}

// perSet counts something.
func perSet(title, help, expr string) panel {
	return line(title, help, "short", query{expr, "{{slurmlet_dev_node_set}}"})
}

var nodeSetBoard = dashboard{
	name: "node-set", title: "Slurm / Node sets", about: "The nodes of one or several node sets together",
	variables: []variable{namespaceVariable, clusterVariable, nodeSetVariable},
	rows: []row{
		{"Nodes", []panel{
			perSet("Nodes that are Ready", "", bySet("slurmlet_ready")),
			area("Nodes by state", "As slurmctld counts the nodes with the set's name as a feature", "short",
				query{"sum by (feature, state) (" + of("slurmlet_cluster_feature_nodes", `feature=~"$node_set"`) + ")", "{{feature}} {{state}}"}),
			perSet("Nodes that end", "Their pods got SIGTERM", bySet("slurmlet_state", `state="Stopping"`)),
			perSet("Jobs that they wait for", "", bySet("slurmlet_stopping_jobs")+" or 0 * "+bySet("slurmlet_ready")),
		}},
		{"What jobs have", []panel{
			line("CPUs", "", "short", query{bySet("slurmlet_node_cpus"), "{{slurmlet_dev_node_set}}: for jobs"}, query{nodesOfSet("slurm_node_cpus_alloc"), "{{slurmlet_dev_node_set}}: in use"}),
			line("Memory", "", "bytes", query{bySet("slurmlet_node_memory_bytes"), "{{slurmlet_dev_node_set}}: for jobs"}, query{nodesOfSet("slurm_node_memory_alloc_bytes"), "{{slurmlet_dev_node_set}}: in use"}),
			line("GPUs", "", "short", query{nodesOfSet("slurm_node_gpus"), "{{slurmlet_dev_node_set}}: there are"}, query{nodesOfSet("slurm_node_gpus_alloc"), "{{slurmlet_dev_node_set}}: in use"}),
			line("Jobs that wait", "In the partition of the set's name", "short", query{"sum by (partition) (" + of("slurm_partition_jobs_pending", `partition=~"$node_set"`) + ")", "{{partition}}"}),
		}},
		{"What jobs use", []panel{
			line("CPU time", "CPUs at work, beside those that jobs have", "short",
				query{rateBySet("slurmlet_node_jobs_cpu_seconds_total"), "{{slurmlet_dev_node_set}}: used"}, query{nodesOfSet("slurm_node_cpus_alloc"), "{{slurmlet_dev_node_set}}: allocated"}),
			line("Memory", "Beside that which jobs have", "bytes",
				query{bySet("slurmlet_node_jobs_memory_usage_bytes"), "{{slurmlet_dev_node_set}}: used"}, query{nodesOfSet("slurm_node_memory_alloc_bytes"), "{{slurmlet_dev_node_set}}: allocated"}),
			line("Block devices", "", "Bps", query{rateBySet("slurmlet_node_jobs_io_read_bytes_total"), "{{slurmlet_dev_node_set}}: read"}, query{rateBySet("slurmlet_node_jobs_io_written_bytes_total"), "{{slurmlet_dev_node_set}}: written"}),
			line("Jobs wait for memory or a CPU", "The share of time in which some thread waits (PSI), on average over the nodes", "percentunit",
				query{"avg by (slurmlet_dev_node_set) (rate(" + of("slurmlet_node_jobs_memory_pressure_some_seconds_total", inSet) + "[$__rate_interval]))", "{{slurmlet_dev_node_set}}: memory"},
				query{"avg by (slurmlet_dev_node_set) (rate(" + of("slurmlet_node_jobs_cpu_pressure_some_seconds_total", inSet) + "[$__rate_interval]))", "{{slurmlet_dev_node_set}}: CPU"}),
		}},
		{"Faults", []panel{
			perSet("slurmd started again", "In each hour", "sum by (slurmlet_dev_node_set) (increase("+of("slurmlet_daemon_restarts_total", inSet)+"[1h]))"),
			perSet("Processes of jobs killed for want of memory", "In each hour", "sum by (slurmlet_dev_node_set) (increase("+of("slurmlet_steps_oom_kills_total", inSet)+"[1h]))"),
			perSet("Steps that lost their slurmstepd", "In each hour", "sum by (slurmlet_dev_node_set) (increase("+of("slurmlet_steps_dead_total", inSet)+"[1h]))"),
			line("Nodes with a fault", "", "short",
				query{bySet("slurmlet_node_fault"), "{{slurmlet_dev_node_set}}: a change of the pod is not followed"},
				query{bySet("slurmlet_node_refused"), "{{slurmlet_dev_node_set}}: slurmctld refuses annotations"},
				query{bySet("slurmlet_config_missed"), "{{slurmlet_dev_node_set}}: another configuration"},
				query{bySet("slurmlet_sack_crowded"), "{{slurmlet_dev_node_set}}: silent connections of users"},
				query{"sum by (slurmlet_dev_node_set) (1 - " + of("slurmlet_cgroup_enforced", inSet) + ")", "{{slurmlet_dev_node_set}}: no cgroup limits jobs"},
				query{"sum by (slurmlet_dev_node_set) (1 - " + of("slurmlet_containers_ready", inSet) + ")", "{{slurmlet_dev_node_set}}: cannot make containers"}),
		}},
	},
}
