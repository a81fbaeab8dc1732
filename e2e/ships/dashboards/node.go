package main

// ofNode and ofPod are the matchers of what slurmctld tells of the chosen node, and of what its own
// agent tells.
const (
	ofNode = `node="$node"`
	ofPod  = `pod="$pod"`
)

func told(metric string) string { return "max(" + of(metric, ofNode) + ")" }

func own(metric string) string { return "max(" + of(metric, ofPod) + ")" }

func ownRate(metric string) string {
	return "max(rate(" + of(metric, ofPod) + "[$__rate_interval]))"
}

var nodeBoard = dashboard{
	name: "node", title: "Slurm / Node", about: "One node: what slurmctld and its own agent tell of it",
	variables: []variable{namespaceVariable, clusterVariable, nodeVariable, podVariable},
	rows: []row{
		{"Now", []panel{
			stat("Ready", "1 while slurmd works and its record is right", "short", limit{}, own("slurmlet_ready")),
			stat("CPUs", "For jobs", "short", limit{}, own("slurmlet_node_cpus")),
			stat("CPUs in use", "", "short", limit{}, told("slurm_node_cpus_alloc")),
			stat("Memory", "For jobs", "bytes", limit{}, own("slurmlet_node_memory_bytes")),
			stat("Memory in use", "That jobs have", "bytes", limit{}, told("slurm_node_memory_alloc_bytes")),
			stat("GPUs in use", "", "short", limit{}, told("slurm_node_gpus_alloc")),
			stat("Jobs", "That have a cgroup", "short", limit{}, own("slurmlet_node_jobs")),
			stat("slurmd started again", "Since the container began", "short", above(3), own("slurmlet_daemon_restarts_total")),
			stat("Settings that do not fit", "slurmlet status names them", "short", above(0), own("slurmlet_node_misfits")),
			stat("cgroups", "1 if cgroups limit the jobs", "short", limit{}, own("slurmlet_cgroup_enforced")),
			{kind: table, title: "Generic resources", width: 9, height: small, queries: []query{{"max by (name, type) (" + of("slurmlet_node_gres", ofPod) + ")", ""}}},
			{kind: table, title: "State", help: "The agent's", width: 9, height: small, queries: []query{{"max by (state) (" + of("slurmlet_state", ofPod) + ") == 1", ""}}},
		}},
		{"CPU", []panel{
			line("CPUs at work", "Beside those that jobs have", "short",
				query{ownRate("slurmlet_node_jobs_cpu_seconds_total"), "jobs"}, query{ownRate("slurmlet_node_daemons_cpu_seconds_total"), "slurmd and the agent"},
				query{told("slurm_node_cpus_alloc"), "allocated"}, query{own("slurmlet_node_cpus"), "for jobs"}),
			line("Held up", "The share of time in which the pod's CPU quota, or too few CPUs, hold up the container's processes", "percentunit",
				query{"max(rate(" + of("slurmlet_node_container_cpu_throttled_periods_total", ofPod) + "[$__rate_interval]) / rate(" + of("slurmlet_node_container_cpu_periods_total", ofPod) + "[$__rate_interval]))", "periods with the quota used up"},
				query{ownRate("slurmlet_node_jobs_cpu_pressure_some_seconds_total"), "some thread of a job waits"}),
		}},
		{"Memory", []panel{
			line("Memory", "", "bytes",
				query{own("slurmlet_node_jobs_memory_usage_bytes"), "jobs"}, query{own("slurmlet_node_jobs_memory_anon_bytes"), "jobs, without cached files"},
				query{own("slurmlet_node_daemons_memory_usage_bytes"), "slurmd and the agent"}, query{told("slurm_node_memory_alloc_bytes"), "allocated"},
				query{own("slurmlet_node_container_memory_limit_bytes"), "the pod's limit"}),
			line("Jobs wait for memory", "The share of time (PSI)", "percentunit",
				query{ownRate("slurmlet_node_jobs_memory_pressure_some_seconds_total"), "some threads"}, query{ownRate("slurmlet_node_jobs_memory_pressure_full_seconds_total"), "all threads"}),
			line("Killed for want of memory", "Processes of jobs in each hour", "short",
				query{"max(increase(" + of("slurmlet_steps_oom_kills_total", ofPod) + "[1h]))", "by the kernel"}, query{"max(increase(" + of("slurmlet_steps_dead_total", ofPod) + "[1h]))", "steps that lost their slurmstepd"},
				query{"max(increase(" + of("slurmlet_strays_oom_kills_total", ofPod) + "[1h]))", "that Slurm did not start"}),
			line("Files of users without a process", "They take memory in /dev/shm and on other tmpfs", "bytes",
				query{"max(" + of("slurmlet_left_files_memory_bytes", ofPod) + ")", "memory"}, query{"max(" + of("slurmlet_left_files_disk_bytes", ofPod) + ")", "disk"}),
			line("The pod's disk", "The kubelet evicts the pod at the limit", "bytes",
				query{"max(" + of("slurmlet_disk_used_bytes", ofPod) + ")", "used"}, query{"max(" + of("slurmlet_disk_limit_bytes", ofPod) + ")", "limit"}),
			line("Threads", "", "short", query{own("slurmlet_node_jobs_threads"), "jobs"}, query{own("slurmlet_node_daemons_threads"), "slurmd and the agent"}),
		}},
		{"Block devices", []panel{
			line("Bytes", "", "Bps", query{ownRate("slurmlet_node_jobs_io_read_bytes_total"), "read"}, query{ownRate("slurmlet_node_jobs_io_written_bytes_total"), "written"}),
			line("Jobs wait for block devices", "The share of time (PSI)", "percentunit",
				query{ownRate("slurmlet_node_jobs_io_pressure_some_seconds_total"), "some threads"}, query{ownRate("slurmlet_node_jobs_io_pressure_full_seconds_total"), "all threads"}),
		}},
		{"Jobs in containers", []panel{
			stat("Containers", "1 if the node can make them, 0 if the site asks for them in vain: slurmlet status says why", "short", limit{}, own("slurmlet_containers_ready")),
			stat("Of squashfs files and registries' images", "1 if the node can make them", "short", limit{}, own("slurmlet_containers_squashfs_ready")),
			line("Containers that run", "", "short", query{own("slurmlet_containers_running"), "containers"}),
			line("Images", "That steps have pulled", "short", query{own("slurmlet_containers_images"), "images"}),
			line("Disk of images", "", "bytes", query{own("slurmlet_containers_images_bytes"), "images"}, query{own("slurmlet_containers_disk_free_bytes"), "free"}),
		}},
		{"Each job (SLURMLET_JOB_METRICS)", []panel{
			line("CPUs at work", "", "short", query{"sum by (job_id) (rate(" + of("slurmlet_job_cpu_seconds_total", ofPod) + "[$__rate_interval]))", "{{job_id}}"}),
			area("Memory", "", "bytes", query{"sum by (job_id) (" + of("slurmlet_job_memory_usage_bytes", ofPod) + ")", "{{job_id}}"}),
		}},
	},
}
