// Package agent runs one Slurm container, from its start as PID 1 to its orderly end.
//
// # Configuration
//
// Environment variables set everything. A variable that begins with SLURMLET_ and
// is not listed here is a fault. A value that is not allowed is a fault too. The
// agent reports all faults at once. It ignores the variables that Kubernetes makes
// from Services (…_SERVICE_HOST, …_PORT_6817_TCP and so on).
//
//	SLURMLET_CONTROLLER     slurmctld's host[:port], several separated by commas; the port is 6817 unless given (slurmd, login: required)
//	SLURMLET_NODE_NAME      the node's name in Slurm (slurmd; default: the host name)
//	SLURMLET_CPU_LIMIT      the container's CPU limit in thousandths of a CPU: resourceFieldRef limits.cpu, divisor 1m (slurmd; default: none)
//	SLURMLET_MEMORY_LIMIT   the container's memory limit in bytes, or with Ki, Mi, Gi, Ti: resourceFieldRef limits.memory (slurmd; default: none)
//	SLURMLET_RESERVE_MEMORY memory that jobs do not get, for the agent and slurmd, in bytes or with Ki, Mi, Gi, Ti (slurmd; default: 64Mi)
//	SLURMLET_CGROUP         whether Slurm must be able to limit jobs by cgroup: require, prefer or off, see below (slurmd; default: prefer)
//	SLURMLET_STORAGE_LIMIT  the container's limit of local disk in bytes, or with Ki, Mi, Gi, Ti: resourceFieldRef limits.ephemeral-storage (slurmd; default: none)
//	SLURMLET_SPOOL_DIR      slurm.conf's SlurmdSpoolDir, an absolute path (slurmd; default: /var/spool/slurmd)
//	SLURMLET_TMP_DIR        slurm.conf's TmpFS, an absolute path (slurmd; default: /tmp)
//	SLURMLET_OOM_GROUP      what happens to the container's memory.oom.group, which the kubelet sets to 1: clear, so that a job at the container's limit does not take slurmd with it, or keep (slurmd; default: clear)
//	SLURMLET_OOM_HEADROOM   memory that a job's cgroup gets above its steps' limit, for slurmstepd, in bytes or with Ki, Mi, Gi, Ti; 0 for none (slurmd; default: 32Mi)
//	SLURMLET_DEAD_STEPS     a job that has lost a slurmstepd: end (cancel it), requeue (if it is a batch job that allows it, otherwise end) or keep (slurmd; default: end)
//	SLURMLET_GRES           generic resources: auto (the GPUs that the agent finds), none, or name[:type][:count],… with no more GPUs than the agent finds (slurmd; default: auto)
//	SLURMLET_GRACE_PERIOD   the time from SIGTERM to SIGKILL, as in terminationGracePeriodSeconds: a duration such as 30s or 10m; see below (default: 30s)
//	SLURMLET_JOB_SIGNAL     a signal that jobs get some time before they are requeued, as in sbatch --signal: [B:]signal[@seconds] (slurmd; default: none)
//	SLURMLET_LISTEN         [host]:port of the agent's HTTP port, with /livez, /readyz, /startupz, /metrics and a short /status; see below (default: :8817)
//	SLURMLET_RUN_DIR        the directory of the agent's sockets and of gres.conf, an absolute path (default: /run/slurmlet)
//	SLURMLET_CONF_DIR       Slurm's configuration directory, an absolute path (default: /etc/slurm)
//	SLURMLET_CONF_SOURCES   directories with slurm.conf and what goes with it, absolute paths separated by colons; see below (slurmctld; default: SLURMLET_CONF_DIR)
//	SLURMLET_CONF_DEFAULTS  whether the agent adds what a cluster of pods needs and slurm.conf does not set: on or off, see below (slurmctld; default: on)
//	SLURMLET_PREFLIGHT      how the agent checks an edit before slurmctld gets it: off, parse or full, see below (slurmctld; default: parse)
//	SLURMLET_STATE_DIR      a directory that outlives the container, an absolute path: the last good configuration is in slurmlet/, slurmctld's state in state/ (at its top if it is there already), unless slurm.conf names another place (slurmctld; default: /var/spool/slurmctld)
//	SLURMLET_MERGE          whether slurmctld's agent merges the changes that many nodes ask for at once into one: on or off, see below (slurmd; default: on)
//	SLURMLET_AGENT_PORT     the port of slurmctld's agent, from which the agent learns that slurmd or sackd has missed a configuration, and that slurmctld starts anew; 0: the agent asks nobody (slurmd, login; default: 8817)
//	SLURMLET_PODINFO_DIR    the mount path of a downward-API volume, an absolute path; see below (slurmd; default: /etc/podinfo)
//	SLURMLET_DAEMON         the daemon's absolute path (default: the role's name, looked up in PATH)
//	SLURMLET_DAEMON_ARGS    further arguments for the daemon, separated by spaces (default: none)
//	SLURMLET_SSHD_CONFIG    sshd's configuration file, an absolute path (login; default: /etc/ssh/sshd_config)
//	SLURMLET_SSH_HOST_KEYS  a directory with ssh_host_…_key files, an absolute path; see below (login; default: /var/lib/slurmlet/ssh)
//	SLURMLET_SSH_AUTHORIZED_KEYS a directory with one file of authorized keys for each user, an absolute path; see below (login; default: /etc/slurmlet/authorized_keys)
//	SLURMLET_SSSD_CONFIG    sssd's configuration file, an absolute path; the agent runs sssd if the file exists (slurmd, login; default: /etc/sssd/sssd.conf)
//	SLURMLET_REST_USER      the user that runs slurmrestd, which refuses root, SlurmUser and nobody (slurmrestd; default: daemon)
//	SLURMLET_REST_LISTEN    [host]:port of slurmrestd (slurmrestd; default: :6820)
//	SLURMLET_REST_AUTH      slurmrestd's authentication plugins, separated by commas: rest_auth/jwt, rest_auth/local (slurmrestd; default: rest_auth/jwt)
//	SLURMLET_REST_OPENAPI   slurmrestd's OpenAPI plugins, separated by commas (slurmrestd; default: slurmctld,slurmdbd)
//	SLURMLET_SLURM_USER     the user that runs slurmctld, sackd and slurmdbd, slurm.conf's SlurmUser (slurmctld, login, slurmdbd; default: slurm)
//	SLURMLET_LOG_LEVEL      debug, info, warn or error (default: info)
//
// # Cgroups
//
// slurmd makes a cgroup for every job and step (cgroup.conf(5)), below the
// container's own. Before slurmd starts, the agent prepares that cgroup: it moves
// every process into the leaf "slurmlet", enables the controllers, and reads them
// back. The container's cgroup must be writable for that. The agent tries these
// ways in order:
//
//	writable       The container's cgroup is writable: containerd's cgroup_writable=true, or CRI-O's annotation io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw.
//	remounted      The mount is read-only. With CAP_SYS_ADMIN the agent makes this one mount writable.
//	own namespace  The container sees the host's cgroups, as a privileged pod does. With CAP_SYS_ADMIN the agent, and all that it starts, get a
//	               cgroup namespace. Its root is the container's own cgroup.
//
// SLURMLET_CGROUP decides what happens without such a way, or without one of the
// controllers cpu, cpuset and memory:
//
//	require  The agent exits with 77, before it starts slurmd or registers a node.
//	prefer   The agent goes on. The status, and one line of the log, say what Slurm cannot enforce, and which settings would change that.
//	         A container that sees the host's cgroups and cannot get a namespace of its own is refused here too, because slurmd would make its
//	         cgroups beside the container's, and the container's limits would not hold its jobs.
//	off      The agent leaves cgroups alone, and the status says what would limit jobs. It goes with CgroupPlugin=disabled (cgroup.conf).
//
// With CgroupPlugin=disabled no cgroup limits a job. JobAcctGatherParams=OverMemoryKill
// has slurmd end a job over its memory when it next looks (JobAcctGatherFrequency). A
// job that grows faster fills the container, and the kernel then ends every process
// there. The kubelet sets memory.oom.group, and the agent cannot clear it on a mount
// that is read-only.
//
// # The node's size
//
// slurmd registers what the kernel and the downward API give the container. The
// smallest limit wins. "slurmlet status" says where each limit came from.
//
//   - CPUs by a quota alone (cpu.max): its whole CPUs, and at least one.
//   - CPUs by a cpuset: the machine's CPUs, and those outside of the cpuset in
//     CpuSpecList, because Slurm binds jobs by the machine's CPUs. A cpuset of whole
//     cores keeps the machine's sockets, cores and threads. Any other is registered
//     flat, each CPU by itself. With a quota as well, the smaller number counts.
//   - RealMemory: memory.max, or the machine's memory if that is less, without
//     SLURMLET_RESERVE_MEMORY. The agent and an idle slurmd use some 15 MiB of the
//     reserve. The rest is for slurmd's forks, prolog and epilog, logs and sockets.
//     slurmstepd's memory counts for its job. Without a reserve, the kernel could
//     kill slurmd though all jobs stay within their memory.
//   - Swap (memory.swap.max) does not count. cgroup.conf's ConstrainSwapSpace and
//     AllowedSwapSpace decide on it.
//   - TmpDisk: the size of TmpFS's file system, of the spool directory's, or the
//     limit of ephemeral storage, whichever is least when the container starts.
//     slurmctld refuses a node whose TmpFS has shrunk. If a file system's size
//     changes with its use (ZFS), set SLURMLET_STORAGE_LIMIT.
//
// A quota's fraction is not lost. If the quota is 1.5 CPUs, Slurm gives jobs one, and
// slurmd and the agent have half a CPU for themselves and for bursts. cpu.stat's
// nr_throttled counts the periods of 100 ms in which the container had used up its quota.
// It hardly grows while jobs keep to their CPUs. It grows steadily if they run more threads
// than they have CPUs, because with a quota nothing binds a job to fewer CPUs than the
// machine has.
//
// When the node is Ready, and after each reconfigure, the agent compares the
// cluster's configuration with the pod's limits. The status, and one line of the
// log, name each setting that does not fit, the one that would, and why.
//
// # GPUs
//
// With SLURMLET_GRES=auto the agent registers the GPUs whose device nodes the
// container has. Their types are those of Slurm's AutoDetect. slurmd reads which
// files they are from gres.conf. This file is the cluster's and comes from slurmctld,
// so the agent writes the container's lines to gres.conf in SLURMLET_RUN_DIR, before
// slurmd starts. The cluster's configuration must have these lines:
//
//	GresTypes=gpu                      in slurm.conf
//	Include /run/slurmlet/gres.conf    in gres.conf, all of it
//
// Slurm takes the Include with its absolute path, and every slurmd reads its own
// container's file. slurmctld follows it too, so its agent writes such a file
// without a line. A daemon that does not find the file waits for a minute, and slurmd then
// ends. Without GresTypes slurmctld drops the GPUs, and the node is registered
// without them. The status, and one line of the log, say so. Without the Include
// slurmctld refuses the node until gres.conf is right and reconfigured, and the
// reason says so.
//
// An instance of MIG has the type of its GPU and "_mig", because /proc does not tell its
// profile. SLURMLET_GRES=gpu:1g.18gb:2 names it. A pod should have at most one, because
// Slurm tells jobs the numbers of their GPUs, and CUDA wants an instance's UUID.
//
// # The pod's description
//
// The agent follows a downward-API volume at SLURMLET_PODINFO_DIR while the container
// runs. Every file of it may be missing.
//
//	labels       metadata.labels
//	annotations  metadata.annotations. They win over labels of the same name.
//	cpu_limit    resourceFieldRef limits.cpu, divisor 1m: thousandths of a CPU. It replaces SLURMLET_CPU_LIMIT.
//	mem_limit    resourceFieldRef limits.memory, divisor 1: bytes. It replaces SLURMLET_MEMORY_LIMIT.
//
// These labels and annotations are parameters of the node (slurm.conf(5)):
//
//	slurmlet.dev/features  Features: names, separated by commas
//	slurmlet.dev/weight    Weight: a whole number
//	slurmlet.dev/topology  Topology, as in default:rack1 (Slurm 25.05 and later)
//
// These annotations give the time that the pod has to end, if it is less than
// SLURMLET_GRACE_PERIOD (see The end):
//
//	slurmlet.dev/grace-period  The time from SIGTERM to SIGKILL: a duration such as 30s or 10m.
//	slurmlet.dev/deadline      The time of SIGKILL, whenever SIGTERM comes: a time such as 2006-01-02T15:04:05Z (RFC 3339).
//
// An edit of the first three changes the node record at once, and jobs run on. If a label
// or annotation is removed, the parameter goes back to Slurm's default. If a value is
// faulty, the agent reports it and keeps the last good values. At the start the agent
// registers nothing until the value is mended.
//
// # slurmctld's configuration
//
// slurmctld does not read the directories that people edit (SLURMLET_CONF_SOURCES, such as
// a ConfigMap's volume). All of their files together are one set. The agent checks the set,
// puts it in place as a whole (SLURMLET_RUN_DIR/conf), and has slurmctld reconfigure. A
// second after the agent has read an edit, the nodes run with it. A set that cannot be used
// changes nothing. The last good set stays, and the status and the log name the file, the
// line and the reason. The agent also keeps the last good set in SLURMLET_STATE_DIR. A
// container that starts during a bad edit comes up with the last good set and says so.
// Without a last good set the agent exits with 78.
//
//	check     The files exist, are text, and have at most 8 MiB each and 32 MiB in all. With SLURMLET_PREFLIGHT=parse, packages slurmconf
//	          and slurmconf/check judge them, and Slurm's own parser (scontrol) reads them. With full, a second slurmctld also starts with
//	          them. slurmctld has no jobs in a partition that the set removes.
//	wait      Until slurmctld has told nodes of their jobs (sdiag's agent count), because the next step would drop that: at most ten
//	          seconds, forty for keys. After three seconds slurmctld starts no jobs until the next step is over (the reservation
//	          slurmlet-reconfigure, of one minute).
//	swap      slurmctld sees the old set or the new one, and nothing between.
//	reconfigure  (scontrol reconfigure) A new process has taken over and answers, within two minutes.
//	confirm   Most of the nodes that answer have reconfigured (slurmd_start_time).
//	keep      The set is the last good one.
//
// When a step fails, the agent puts the last good set back. It also reconfigures with that
// set, because since 25.11 slurmctld pushes even a set that it has refused. Edits that come
// meanwhile wait, and the last of several counts. "slurmlet reload" tries the present
// content once more, waits, and reports the result. A slurmctld that answers none of three
// reconfigures in a row, for six minutes, hangs. The agent ends it, by SIGKILL if it must,
// and the container with it. The next one starts with its state.
//
// The check refuses what Slurm would refuse. If Slurm accepts something that its
// author probably meant otherwise, it goes live, and the status and the log report it.
// The check never refuses keys that Slurm's own parser knows. If slurmconf/check does
// not know the version, Slurm's parser is the only judge.
//
// With SLURMLET_PREFLIGHT=full, the agent also finds what slurmctld would exit over
// (Licenses=a:b:c, a missing job_submit.lua), before the running slurmctld gets the set.
// The second slurmctld runs as the same user in SLURMLET_RUN_DIR/dryrun. The agent kills it
// as soon as it serves its port. An edit takes some tenths of a second more, and the
// container needs the memory of an idle slurmctld. The second slurmctld disturbs nobody. It
// has a state, a PID file and a free port of its own, is the only SlurmctldHost, and can
// connect only to unix sockets (seccomp(2)), so no node, slurmdbd or other slurmctld hears
// of it. It does not try jobs, nodes, reservations, the addresses of nodes, SwitchType,
// JobCompType and BurstBufferType. It runs none of slurmctld's programs. It knows only the
// accounts that slurmctld has kept in StateSaveLocation. If it cannot start, or neither
// serves its port nor ends within 15 s, the agent goes on without it, and a line of the log
// says so.
//
// A reconfigure cannot change some settings. A change of AuthType, ClusterName,
// StateSaveLocation or SwitchType would lose jobs. After a change of SlurmctldPort or
// SlurmdPort, the daemons would not find each other. As long as slurmctld runs, the agent
// refuses such an edit and names the daemons that need a restart. A slurmctld that starts
// takes what the sources hold then. To change a cluster's port, edit it, and delete the
// pods.
//
// If an edit removes or renames a partition, its jobs run to their end first, because
// slurmctld would end them at once, the pending ones too. While the partition has jobs, the
// agent refuses the edit and names them. It also refuses the edit while slurmctld does not
// answer. It looks again every 20 seconds, and the edit goes live when the jobs are over.
// With State=DRAIN in the partition's place, or scontrol update PartitionName=…
// State=DRAIN, no new jobs come. A pending job that names several partitions needs all of
// them up to 25.05, and one of them since 25.11. Up to 25.05 a running job that was
// submitted for several ends with any of them. slurmctld tells only the partition that the
// job runs in, so the agent cannot protect it. A slurmctld cannot answer before it runs.
// The agent starts it with the last good set, and the edit follows, unless that set does
// not work, or the edit changes what only a start can. With SLURMLET_PREFLIGHT=off the
// agent asks nobody.
//
// Scripts (files that begin with #!) are executable in the set in place for everybody who
// may read them, whatever mode a ConfigMap's volume has. slurmctld runs them as
// PrologSlurmctld=/run/slurmlet/conf/begin.sh. It ships Prolog=prolog.sh, a name without a
// path, to the nodes. Other files are not executable.
//
// The agent does not copy keys (*.key, *.jwks, *.pem, *.p12, slurmdbd.conf). The set in
// place has links to them. For scontrol in this container, set
// SLURM_CONF=/run/slurmlet/conf/slurm.conf. Without it, scontrol reads /etc/slurm, which
// may hold a refused edit. Names with a path before them (Include /etc/slurm/x.conf) do not
// belong to the set.
//
// A slurmd or sackd may miss the new set, or get one that was taken back. Its agent learns
// of this from slurmctld's agent, which serves the hashes of the files (GET /conf). It
// restarts the daemon to fetch the set, after some seconds and at most three times. Jobs
// and sessions live on.
//
// A missing answer refuses nothing. While slurmctld does not answer, or its nodes have not
// registered yet, the agent waits, and the status says for whom. The nodes that answer
// decide. If most of them go on with the slurmd that they had, the agent restarts slurmd on
// one of them with the new set, an idle one if there is one. If it comes up, the agent
// restarts the others that have not followed, such as a slurmd 24.11 that runs with
// IgnoreSystemd=yes and cannot reconfigure. If it does not within a minute, the agent puts
// the last good set back. The agent ends a slurmctld that answers nothing for six minutes,
// and the next one starts with the edit. If slurmctld answers and none of its nodes does,
// the new set stays, does not become the last good one, and another edit takes its place
// after 30 seconds.
//
// If slurmctld starts with another set than the last good one, it reconfigures with it at
// once, and its nodes decide as they do about any edit. The exception is a set that only a
// start of slurmctld can bring in. The agents of the nodes restart their daemons for it.
//
// With SLURMLET_CONF_DEFAULTS=on, the agent adds some lines at the end of slurm.conf in the
// set in place, and a cgroup.conf if there is none. They hold what a cluster of pods needs,
// with the reason beside each. They change nothing that the files set. The status says what
// a value of your own costs. conmgr_max_connections, TreeWidth and MessageTimeout follow
// from MaxNodeCount.
//
// # Resize
//
// Kubernetes resizes pods in place. When the container's limits change, the agent drains
// the node, waits for its jobs, and registers it with the new size. The kernel tells the
// agent of the change (inotify on cpu.max, cpuset.cpus, memory.max and the volume above).
// If the limits of fs.inotify are reached, the agent looks once a minute.
// SLURMLET_CPU_LIMIT and SLURMLET_MEMORY_LIMIT cannot follow a resize. The agent drops each
// of them when the kernel's own limit of its kind changes.
//
// # Login
//
// A login pod runs sackd, sshd and, if it is configured, sssd. sackd gives the commands of
// the pod's users their credentials, and keeps a copy of the cluster's configuration in
// /run/slurm/conf, where Slurm's commands look for it. If one of the daemons dies, the
// agent starts it again, after a pause that grows from 100 ms to 30 s with each failure in
// a row. The others run on, and sessions survive even sshd's end. The pod is ready when all
// of the daemons are.
//
// sackd takes a new configuration from slurmctld only if it runs as slurm.conf's SlurmUser
// (SLURMLET_SLURM_USER), in 24.11 and 26.05 alike. Otherwise it cannot verify the sender,
// and its agent restarts it to fetch each set. The agent also restarts a sackd that was
// away, because slurmctld forgets a sackd that it does not reach.
//
// A slurmd's container has sssd in the same way, because a job's users and groups are looked
// up there. The node is ready when sssd answers, and jobs run on when it dies. sssd needs
// some 100 MiB of SLURMLET_RESERVE_MEMORY. Under systemd the agent leaves the machine's own
// sssd alone.
//
// sshd reads SLURMLET_SSHD_CONFIG as it is. The agent adds host keys, and adds the keys of
// the mounted directory to AuthorizedKeysFile.
//
//   - Host keys are those in SLURMLET_SSH_HOST_KEYS, such as a Secret. If there are
//     none, the agent makes an Ed25519 key there. On a volume it stays the same.
//   - Authorized keys: the file alice in SLURMLET_SSH_AUTHORIZED_KEYS, in the format
//     of authorized_keys (sshd(8)), lets alice in. A change of the ConfigMap or Secret
//     counts at once, for new connections.
//
// sshd would refuse files as Kubernetes mounts them. The agent copies them to
// SLURMLET_RUN_DIR with an owner and a mode that sshd accepts. The container need not be
// privileged. sshd needs the capabilities CHOWN, DAC_OVERRIDE, FOWNER, KILL,
// NET_BIND_SERVICE (for a port below 1024), SETGID, SETUID and SYS_CHROOT, and AUDIT_WRITE
// if it is built to write to the kernel's audit. A container has all of them by default.
//
// # The cluster's keys
//
// A key of auth/slurm makes its owner root in the cluster. The agent refuses slurm.key and
// slurm.jwks if others may read them (want 0600, or a Secret's defaultMode 0400), or if
// their owner is neither root nor SlurmUser. The daemon gets a copy in SLURMLET_RUN_DIR. No
// log, argument or status contains a key. The status names the keys.
//
// slurm.key cannot change while the cluster runs, because each daemon refuses what the other
// key has signed. slurm.jwks replaces it for a rotation. Both may exist, and slurm.jwks
// counts. Edit the Secret three times:
//
//	slurmlet jwks slurm.key 2026.key              both are accepted, the first signs
//	slurmlet jwks -expire 1h 2026.key slurm.key   the new one signs; the old one's time runs
//	slurmlet jwks 2026.key                        at any time after that
//
// Make the next edit when "slurmlet status" in every pod shows the keys of the last edit,
// and a main process that is younger. Each agent reads an edit as soon as its volume has
// it, and has the daemon hand over to a new process. Jobs run on, and new ones start. The
// agent of slurmdbd restarts it instead. slurmd follows slurmctld or, 15 seconds later, its
// own volume. The agent refuses an edit that daemons with the former keys would not
// understand, and the status says why. A container that starts takes the keys that it
// finds.
//
// # Accounting
//
// slurmdbd takes slurmdbd.conf only if it is SlurmUser's alone, and a file of a Secret
// never is. The agent copies all files of SLURMLET_CONF_DIR, a mounted Secret, to slurmdbd
// in SLURMLET_RUN_DIR, with mode 0600. AuthAltParameters must name a JWT key there. An edit
// counts at once, by SIGHUP. If the edit changes the database, DbdPort or JWT keys, the
// agent restarts slurmdbd, because SIGHUP does not suffice. slurmctld keeps its records
// meanwhile. PidFile should be in /run/slurmdbd, which the agent makes.
//
// The agent starts slurmdbd when its database lets it log in. Until then, the status says
// why it does not. If slurmdbd complains of the database later, the agent asks the database
// until it answers. slurmdbd stays up and Ready, because slurmctld keeps its records. An
// upgrade of the database's schema may take any time. Meanwhile /livez succeeds, and
// /readyz and /startupz do not.
//
// A slurmctld that has no state yet waits for slurmdbd by itself. The status of its agent
// has slurmctld's own words. A slurmctld with state starts without slurmdbd. If that
// slurmdbd does not know the cluster, slurmctld would never register it there, and Slurm
// would account for no job. The agent of slurmctld therefore asks slurmdbd, and has
// slurmctld reconfigure once.
//
// # REST
//
// slurmrestd reads slurm.conf in SLURMLET_CONF_DIR. With rest_auth/jwt it holds no key,
// because slurmctld and slurmdbd judge the tokens (slurm.conf(5), AuthAltTypes=auth/jwt,
// AuthAltParameters=jwt_key=). rest_auth/local does not go with it, because slurmrestd then
// speaks to Slurm as AuthType does. Alone, rest_auth/local serves processes of root and of
// slurmrestd's own user on a unix socket, if a sackd gives that user credentials.
// SLURMLET_DAEMON_ARGS=unix:/run/slurmrestd/slurmrestd.sock makes the socket in a directory
// that belongs to the user.
//
// # systemd
//
// On a machine without Kubernetes the agent runs as a unit (images/slurmlet@.service in the
// source), of Type=notify-reload or notify. The unit is active when the node is registered.
// Its status text is the agent's state and reason. A reload ends when the daemon's
// successor is confirmed, or after a minute. A stop is the end that is described below, so
// TimeoutStopSec must be at least SLURMLET_GRACE_PERIOD. With WatchdogSec, the agent
// reports to systemd twice in that time.
//
// PrivatePIDs (systemd 257) makes the agent the first process of a pid namespace.
// PrivateMounts and Delegate give it a cgroup namespace of its own, as in a container.
// Without them slurmd would make its cgroups beside the unit's.
//
// # The end
//
// SIGTERM ends no job while there is time. The agent of slurmd drains the node with the
// reason "slurmlet: pod is terminating" (an admin's drain keeps its own). It waits until
// slurmctld says that no job holds the node, deletes the node record, stops slurmd and exits.
// It asks slurmctld when a step has ended, and not at intervals. The kernel tells the agent
// of that end (inotify on the spool directory). If the limits of fs.inotify are reached, the
// agent looks for it every second, which slurmctld does not notice. Some ends give no sign.
// If no step runs on this node, the agent looks every 5 s for an epilog's end, and once a
// minute for the end of an allocation. No controller of Kubernetes takes part.
//
// Many nodes may end at the same moment, and each deletion of a record makes slurmctld
// rebuild tables of all nodes. The agent therefore asks slurmctld's agent to drain, resume,
// fail (DOWN) or delete its node (GET /change, signed with auth/slurm's key). slurmctld's
// agent collects requests for 50 ms, runs one scontrol for all, and tells each agent what
// slurmctld has said of its node. If slurmctld refuses a list, slurmctld's agent asks again
// for the nodes that are not known to be done. It takes a request for a node only from the
// address at which that node's agent follows the configuration. If slurmctld's agent is
// away, refuses, or does not answer (2 s; 10 s if it has begun), the node's agent runs
// scontrol itself. It also does so with munge, and with SLURMLET_MERGE=off. Jobs are
// requeued one by one, because slurmctld takes one request for each job anyway.
//
// A node is in service from slurmd's READY until slurmctld has deleted its record, whatever
// slurmd does when SIGTERM comes. With auth/slurm, scontrol gets its credentials from slurmd,
// so the agent cannot ask slurmctld without it. The steps do not need slurmd. On the way
// down, and before, the agent does the following:
//
//	slurmd is dead or restarts           The agent starts it as soon as slurmctld's port answers.
//	slurmd is not READY, for a third     The agent kills it and starts another, if slurmctld's port
//	of the time that jobs have           answers; at the latest after 15 s, longer with each failure.
//	slurmd's socket does not answer      The agent kills it and starts another, if slurmctld's port
//	for as long, or 30 s                 answers. It looks at the socket when a question to slurmctld
//	                                     takes longer than a second, and once a minute at one of the
//	                                     kubelet's probes.
//	slurmctld says NOT_RESPONDING        On the way down, the agent restarts slurmd, once.
//	SIGKILL does not end slurmd, or it   On the way down, the agent starts a sackd in slurmd's place.
//	has failed to start three times      scontrol gets its credentials from it. The agent exits with
//	                                     137 if slurmd is still there then.
//	slurmctld cannot be reached          The agent looks for it until the deadlines below.
//
// Without sackd in the image, the agent waits for slurmd until the deadlines. If the file
// system of the spool directory does not answer, the agent takes the steps there as living.
//
// SLURMLET_GRACE_PERIOD bounds the end. It must be no more than the pod's
// terminationGracePeriodSeconds. For 30 s, 10 min and 24 h:
//
//	14.00 s  8m44s    23h58m44s  The agent waits for jobs until then. SLURMLET_JOB_SIGNAL goes out its seconds (60 unless given)
//	                             before. Then the agent requeues batch jobs that allow it (sbatch --requeue, JobRequeue). Any other
//	                             job gets an AdminComment that says so.
//	17.75 s  9m14s    23h59m14s  The agent kills processes of requeued jobs that ignore SIGTERM.
//	21.50 s  9m44s    23h59m44s  The agent sets the node DOWN: a job that is left ends as NODE_FAIL, and its processes get SIGTERM.
//	23.38 s  9m49s    23h59m49s  The agent kills what that job has left here.
//	25.25 s  9m54s    23h59m54s  slurmd gets SIGTERM, whatever has become of the record. Nothing of a step is left then.
//	29.00 s  9m59s    23h59m59s  slurmd gets SIGKILL.
//	29.50 s  9m59.5s  23h59m59.5s  The agent exits.
//
// A cluster often grants a pod less than its terminationGracePeriodSeconds. The kubelet does
// not tell the container, and its SIGKILL would find the jobs running. Tell the agent in one
// of these ways. The least time counts:
//
//   - SLURMLET_GRACE_PERIOD, if it bounds every deletion of the pod.
//   - The annotations above. They must exist before the pod is deleted, because the
//     kubelet does not update the volumes of a pod that is on its way down. A
//     deadline that is over when SIGTERM comes was wrong, and does not count.
//   - "slurmlet deadline 90s" (or a time), by kubectl exec, at any time, on the way down too.
//
// On the way down, the agent divides the time that is left as it divides a grace period. It
// puts no deadline off. A faulty value changes nothing, and the agent reports it.
//
// If the agent stops slurmd before the time for requeues, slurmd has longer until its
// SIGKILL: 15 s, 1m15s and 1m15s.
//
// While slurmctld does not answer, nothing counts as drained or deleted. The agent asks again
// until the time is over, or for a minute if no step runs on the node. It exits with 75 if the
// record may still be there. The next pod of that name takes the record over and lifts the
// drain. The agent starts a slurmd again that ends by itself meanwhile.
//
// When the agent itself is killed, its container ends with all jobs in it. The next
// container's agent has slurmctld requeue the jobs whose batch script ran there, or end
// them as NODE_FAIL, within seconds after slurmd has registered. slurmctld finds the other
// jobs by itself, within half a minute.
//
// srun may run on another node or in a login pod when its step dies with the step's
// container. srun does not end then, because it sees a connection that was closed in order.
// It waits until the job's time is over (24.11.5 and 26.05.5). 25 s after the node is
// Ready, the agent looks for such steps. It requeues the job if it is a batch job that
// allows it, and cancels it otherwise. With SLURMLET_DEAD_STEPS=keep it leaves the job
// alone.
//
// slurmctld has the whole grace period to save its state.
//
// The agent of a login pod lets nobody in any more. It writes /run/nologin and closes
// sshd's port. It tells the users on their terminals how long sessions may last, and tells
// them again when jobs would be requeued. Sessions last until the time above at which a
// node is set DOWN. They then get SIGTERM, and later SIGKILL, as steps do. sackd lives
// until the last session is over.
//
// A second SIGTERM changes nothing. A second SIGINT, as from a terminal, stops the daemon at
// once. SIGQUIT logs the status and all goroutines.
//
// "slurmlet drain" keeps new jobs from the node, and "slurmlet resume" lets them come
// again. Both leave a drain alone that somebody else has set.
//
// # Log
//
// The standard output has one JSON object per line: the agent's lines (source "slurmlet")
// and the daemon's. Neither waits for the reader. If the reader stops, the agent keeps 1
// MiB for it. It drops and counts the lines that come after that, and logs their number
// where they are missing. At its end the agent gives the reader a quarter of a second.
//
// # The port and the socket
//
// The agent answers everybody who reaches SLURMLET_LISTEN. It serves its state, whether it
// is Ready, its version and the hashes of slurmctld's configuration (/status), its metrics
// (/metrics), and the answers of probes. slurmctld's agent also keeps the requests of
// agents that wait for another configuration (/conf). Requests are GET or HEAD without a
// body and with a head of 8 KiB at most, and end within ten seconds. At most 256
// connections (slurmctld: 1024) are open. At slurmctld's agent, 1024 more may wait, and two
// for each node that there can be. If there are too many, the address with the most loses
// its oldest.
//
// An agent that has auth/slurm's key signs its request to slurmctld's agent with it, over a
// challenge that it asks for first (/challenge), and accepts only a signed answer. It then
// waits in its node's name, apart from strangers, who never take its place. All nodes may
// come from one address. When slurmctld's agent is new, 10,000 agents come back within ten
// seconds. If the cluster has munge, and no such key, agents wait as strangers do.
//
// SLURMLET_RUN_DIR/agent.sock is for root and the agent's own user. It serves the whole status
// and the commands.
//
// # Metrics
//
// GET /metrics is the status in numbers, for Prometheus. It holds no text that people or
// daemons have written. The only names in it are those of files, keys and nodes. The agent
// asks nobody for it. What it tells of jobs and other nodes is what slurmctld said last.
// Counters begin with the container, times are seconds since 1970, and what is unknown is
// missing.
//
// Every role (keys: where auth/slurm is used):
//
//	slurmlet_build_info{version,role}             1, with slurmlet's version and the container's role
//	slurmlet_state{state}                         1 for the state that the container is in, 0 for the others
//	slurmlet_state_start_time_seconds             When the container came into this state
//	slurmlet_ready                                1 while the daemon does its work, and every service beside it: /readyz succeeds
//	slurmlet_started                              1 once the container has been Ready: /startupz succeeds
//	slurmlet_daemon_running                       1 while there is a main process
//	slurmlet_daemon_restarts_total                Starts of the daemon after the first, without its hand-overs to a new process
//	slurmlet_log_lines_lost_total                 Lines of the log that nobody read in time
//	slurmlet_daemon_start_time_seconds            When the main process began
//	slurmlet_daemon_last_error_timestamp_seconds  When the daemon's last line that was an error came
//	slurmlet_keys_info{signs}                     1, with the name of the key of auth/slurm that signs
//	slurmlet_keys_accepted                        Keys that the daemon accepts
//	slurmlet_keys_timestamp_seconds               When the keys were put in place
//	slurmlet_keys_first_expiry_timestamp_seconds  When the first of the keys expires, if one does
//	slurmlet_keys_refused                         1 while the mounted keys are others, which cannot be used
//
// From SIGTERM on:
//
//	slurmlet_stopping_start_time_seconds               When SIGTERM came
//	slurmlet_stopping_deadline_timestamp_seconds       When the agent exits at the latest
//	slurmlet_stopping_jobs_deadline_timestamp_seconds  When jobs that still run are requeued or fail (slurmd)
//	slurmlet_stopping_jobs                             Jobs that the end waits for (slurmd)
//	slurmlet_stopping_left                             1 if something could not be done in time, and the node record or jobs may be left
//
// slurmctld:
//
//	slurmlet_config_info{hash}                    1, with the hash of the configuration in place
//	slurmlet_config_reloading                     1 while an edit is tried, or the last good configuration is put back
//	slurmlet_config_reloads_total{outcome}        Edits by what became of them: taken, refused before slurmctld had them, or rolled_back after
//	slurmlet_config_nodes_taken                   Nodes that have taken the last edit
//	slurmlet_config_nodes_missed                  Nodes that have not taken the last edit; the status names them
//	slurmlet_config_refused                       1 while the sources hold what cannot be used; the status says why
//	slurmlet_config_refused_info{file,line}       1, with the place of the first fault that has one
//	slurmlet_config_refused_timestamp_seconds     When that was refused
//	slurmlet_config_faults                        Reasons why the last good configuration is not back in place, or was not kept
//	slurmlet_config_last_taken_timestamp_seconds  When slurmctld and its nodes had taken the last edit
//	slurmlet_config_last_taken_duration_seconds   How long the last edit that was taken had needed, from when the agent read it
//
// slurmd and login:
//
//	slurmlet_config_missed  1 while the daemon has another configuration than slurmctld, in spite of restarts
//
// slurmd:
//
//	slurmlet_node_info{node}               1, with the node's name in Slurm
//	slurmlet_node_cpus                     CPUs for jobs (CPUEfctv)
//	slurmlet_node_memory_bytes             Memory for jobs (RealMemory)
//	slurmlet_node_tmp_disk_bytes           Disk for jobs (TmpDisk)
//	slurmlet_node_gres{name,type}          Generic resources for jobs (Gres)
//	slurmlet_node_misfits                  Settings of the cluster that do not go with the pod's limits, once they are known
//	slurmlet_node_fault                    1 while a change of the pod cannot be followed
//	slurmlet_node_refused                  1 while slurmctld does not take what the pod's annotations say
//	slurmlet_cgroup_enforced               1 if Slurm has a cgroup subtree with all controllers that it limits jobs by
//	slurmlet_steps_watched                 1 if the agent looks after the cgroups of jobs
//	slurmlet_steps_oom_kills_total         Processes of jobs that the kernel has killed for want of memory
//	slurmlet_steps_dead_total              Steps that have lost their slurmstepd
//	slurmlet_steps_leftover_cgroups_total  Empty cgroups that Slurm had left and the agent has removed
//
// login:
//
//	slurmlet_sessions                         Users' sessions
//	slurmlet_service_running{service}         1 while the service serves: sshd, sssd
//	slurmlet_service_restarts_total{service}  Starts of the service after the first
//
// # Exit status
//
//	0    stopped in order after SIGTERM, SIGINT or SIGRTMIN+3
//	1    the agent itself failed; "slurmlet check": an error is among the findings, and Slurm would refuse the files
//	64   wrong usage: unknown role or command (EX_USAGE)
//	69   "slurmlet status", "slurmlet probe": no agent answers (EX_UNAVAILABLE)
//	72   something that the container must have is missing: the daemon, scontrol, sdiag, sinfo, squeue, a key, a user (EX_OSFILE)
//	75   "slurmlet status", "slurmlet probe": the agent is not Ready; the agent itself: the time was over, and the node record or
//	     jobs may be left (EX_TEMPFAIL)
//	77   Slurm cannot limit jobs by cgroup, and SLURMLET_CGROUP does not go without (EX_NOPERM)
//	78   the configuration or a limit has faults (EX_CONFIG)
//	n    the daemon's own status n: slurmctld ended by itself, or a daemon failed while it was being stopped;
//	     128+n: it was ended by signal n (137: SIGKILL, also when it did not stop within the grace period)
//
// If slurmd ends by itself, the container goes on. The job steps live on, and the agent
// starts a new slurmd, which takes them over, after a pause that grows from 100 ms to 30 s
// with each failure in a row. The agent also starts sackd, slurmdbd and slurmrestd again.
package agent
