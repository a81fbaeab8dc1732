// Package agent is the life of one Slurm container, from its start as PID 1 to
// its orderly end.
//
// # Configuration
//
// Everything is set by environment variables. A variable that begins with
// SLURMLET_ and is not listed here is a fault, as is a value that is not
// allowed; all faults are reported at once. The variables that Kubernetes makes
// from Services (…_SERVICE_HOST, …_PORT_6817_TCP and so on) are left alone.
//
//	SLURMLET_CONTROLLER     slurmctld's host[:port], several separated by commas; the port is 6817 unless given (slurmd, login: required)
//	SLURMLET_NODE_NAME      the node's name in Slurm (slurmd; default: the host name)
//	SLURMLET_CPU_LIMIT      the container's CPU limit in thousandths of a CPU: resourceFieldRef limits.cpu, divisor 1m (slurmd; default: none)
//	SLURMLET_MEMORY_LIMIT   the container's memory limit in bytes, or with Ki, Mi, Gi, Ti: resourceFieldRef limits.memory (slurmd; default: none)
//	SLURMLET_RESERVE_MEMORY memory kept from jobs for the agent and slurmd, in bytes or with Ki, Mi, Gi, Ti (slurmd; default: 64Mi)
//	SLURMLET_CGROUP         whether Slurm must be able to limit jobs by cgroup: require, prefer or off, see below (slurmd; default: prefer)
//	SLURMLET_STORAGE_LIMIT  the container's limit of local disk in bytes, or with Ki, Mi, Gi, Ti: resourceFieldRef limits.ephemeral-storage (slurmd; default: none)
//	SLURMLET_SPOOL_DIR      slurm.conf's SlurmdSpoolDir, an absolute path (slurmd; default: /var/spool/slurmd)
//	SLURMLET_TMP_DIR        slurm.conf's TmpFS, an absolute path (slurmd; default: /tmp)
//	SLURMLET_OOM_GROUP      the container's memory.oom.group, which the kubelet sets to 1: clear it, so that a job at the container's limit does not take slurmd with it, or keep (slurmd; default: clear)
//	SLURMLET_OOM_HEADROOM   what a job's cgroup gets above its steps' memory limit, for slurmstepd, in bytes or with Ki, Mi, Gi, Ti; 0 for none (slurmd; default: 32Mi)
//	SLURMLET_DEAD_STEPS     a job that has lost a slurmstepd: end (cancel it), requeue (if it is a batch job that may be, else end) or keep (slurmd; default: end)
//	SLURMLET_GRES           generic resources: auto (the GPUs that are found), none, or name[:type][:count],… with no more GPUs than are found (slurmd; default: auto)
//	SLURMLET_GRACE_PERIOD   from SIGTERM to SIGKILL, as in terminationGracePeriodSeconds: a duration such as 30s or 10m; see below (default: 30s)
//	SLURMLET_JOB_SIGNAL     a signal for the jobs that still run when the grace period comes to its end, in the form of sbatch --signal: [B:]signal[@seconds] (slurmd; default: none)
//	SLURMLET_LISTEN         where /livez, /readyz, /startupz, /metrics and a short /status are served over HTTP: [host]:port; see below (default: :8817)
//	SLURMLET_RUN_DIR        the directory of the agent's sockets and of gres.conf, an absolute path (default: /run/slurmlet)
//	SLURMLET_CONF_DIR       Slurm's configuration directory, an absolute path (default: /etc/slurm)
//	SLURMLET_CONF_SOURCES   directories with slurm.conf and what goes with it, absolute paths separated by colons; see below (slurmctld; default: SLURMLET_CONF_DIR)
//	SLURMLET_CONF_DEFAULTS  what a cluster of pods needs and slurm.conf does not set is added: on or off, see below (slurmctld; default: on)
//	SLURMLET_PREFLIGHT      how an edit is looked at before slurmctld gets it: off, parse or full, see below (slurmctld; default: parse)
//	SLURMLET_STATE_DIR      a directory that outlives the container, where the last good configuration is kept in slurmlet/ and, unless slurm.conf says where, slurmctld's state in state/ (at its top if it is there already), an absolute path (slurmctld; default: /var/spool/slurmctld)
//	SLURMLET_AGENT_PORT     the port of slurmctld's agent, which tells when slurmd or sackd has missed a configuration, and by its end when slurmctld starts anew; 0: nobody is asked (slurmd, login; default: 8817)
//	SLURMLET_PODINFO_DIR    where a downward-API volume is mounted, an absolute path; see below (slurmd; default: /etc/podinfo)
//	SLURMLET_DAEMON         the daemon's absolute path (default: the role's name, looked up in PATH)
//	SLURMLET_DAEMON_ARGS    further arguments for the daemon, separated by spaces (default: none)
//	SLURMLET_SSHD_CONFIG    sshd's configuration file, an absolute path (login; default: /etc/ssh/sshd_config)
//	SLURMLET_SSH_HOST_KEYS  a directory with ssh_host_…_key files, an absolute path; see below (login; default: /var/lib/slurmlet/ssh)
//	SLURMLET_SSH_AUTHORIZED_KEYS a directory with a file of authorized keys for each user, an absolute path; see below (login; default: /etc/slurmlet/authorized_keys)
//	SLURMLET_SSSD_CONFIG    sssd's configuration file, an absolute path; sssd runs where there is one (slurmd, login; default: /etc/sssd/sssd.conf)
//	SLURMLET_REST_USER      the user that slurmrestd runs as: not root, not SlurmUser, not nobody, or it refuses (slurmrestd; default: daemon)
//	SLURMLET_REST_LISTEN    where slurmrestd listens: [host]:port (slurmrestd; default: :6820)
//	SLURMLET_REST_AUTH      slurmrestd's authentication plugins, separated by commas: rest_auth/jwt, rest_auth/local (slurmrestd; default: rest_auth/jwt)
//	SLURMLET_REST_OPENAPI   slurmrestd's OpenAPI plugins, separated by commas (slurmrestd; default: slurmctld,slurmdbd)
//	SLURMLET_SLURM_USER     the user that slurmctld, sackd and slurmdbd run as, slurm.conf's SlurmUser (slurmctld, login, slurmdbd; default: slurm)
//	SLURMLET_LOG_LEVEL      debug, info, warn or error (default: info)
//
// # Cgroups
//
// slurmd makes a cgroup for every job and step (cgroup.conf(5)), and needs a
// part of the hierarchy to do it in. Before slurmd starts, the agent makes the
// container's own cgroup ready for it: every process goes into the leaf
// "slurmlet", the controllers are enabled and read back. The container's cgroup
// must be writable for that, which it becomes in one of these ways, tried in order:
//
//	writable       it is so already: containerd's cgroup_writable=true, CRI-O's annotation io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw
//	remounted      it was mounted read-only: with CAP_SYS_ADMIN that one mount is made writable
//	own namespace  the container sees the host's cgroups, as a privileged pod does: with CAP_SYS_ADMIN the agent, and all that it starts, get a
//	               cgroup namespace whose root is the container's own cgroup
//
// SLURMLET_CGROUP=require makes the agent exit with status 77, before slurmd is
// started or a node registered, unless there is such a way and the controllers cpu,
// cpuset and memory are on. With prefer it goes on; the status and one line in
// the log say what is not enforced, and which settings would change that. A
// container that sees the host's cgroups and cannot get a namespace of its own
// is refused by prefer too: slurmd would make its cgroups beside the
// container's, and nothing would hold jobs to the container's limits. off
// leaves cgroups alone: with cgroup.conf's CgroupPlugin=disabled no cgroup holds a
// job to its memory and cores, and the status says what would change that. There
// JobAcctGatherParams=OverMemoryKill has slurmd end a job over its memory when it
// looks (JobAcctGatherFrequency). A faster one fills the container, where the kernel
// ends every process: the kubelet sets memory.oom.group, and a mount that is
// read-only keeps the agent from clearing it.
//
// # The node's size
//
// slurmd registers what the kernel and the downward API give the container; the
// tightest wins, and "slurmlet status" tells where each limit came from.
//
//   - CPUs: with a quota alone (cpu.max), as many as it pays for, without the
//     fraction and at least one. In a cpuset, the machine's CPUs, those outside in
//     CpuSpecList: Slurm binds jobs by the machine's CPUs. A cpuset of whole cores
//     keeps the machine's sockets, cores and threads, any other is registered
//     flat, each CPU by itself. With both, the fewer CPUs.
//   - RealMemory: memory.max, or the machine's memory if that is less, without
//     SLURMLET_RESERVE_MEMORY. An idle container, the agent and slurmd, is charged
//     some 15 MiB; the rest of the default is for a slurmd that is busy: its forks,
//     prolog and epilog, logs and sockets. A slurmstepd is charged to its job. Without
//     a reserve, jobs that take no more than they were given could have the kernel
//     kill slurmd.
//   - Swap (memory.swap.max) is not counted: whether jobs may use it is for
//     cgroup.conf's ConstrainSwapSpace and AllowedSwapSpace to say.
//   - TmpDisk: the whole size of the file system of TmpFS, or of the spool
//     directory, or the limit of ephemeral storage, whichever is least, when the
//     container starts. Where a file system's size changes with its use (ZFS), set
//     SLURMLET_STORAGE_LIMIT: slurmctld refuses a node whose TmpFS has shrunk.
//
// A quota's fraction is not lost: of 1.5 CPUs, Slurm gives jobs one, and half a
// CPU is left for slurmd, the agent and bursts. cpu.stat's nr_throttled counts
// the periods (100 ms) in which the container had used up its quota and stood
// still; with jobs that keep to their CPUs it hardly grows, and it grows steadily
// where they do not: more threads run than there are CPUs allocated, because
// with a quota nothing binds a job to fewer CPUs than the machine has.
//
// When the node is Ready, and after each reconfigure, the agent compares the
// cluster's configuration with the pod's limits. What does not go together, the
// setting that would, and why, is in the status and once in the log.
//
// # GPUs
//
// The agent registers the GPUs whose device nodes the container has (auto), by the
// types that Slurm's own AutoDetect would give them. slurmd learns which files they
// are from gres.conf, which is the cluster's and comes from slurmctld; so the agent
// writes the container's lines to gres.conf in SLURMLET_RUN_DIR, before slurmd
// starts, and the cluster's configuration has to say
//
//	GresTypes=gpu                      in slurm.conf
//	Include /run/slurmlet/gres.conf    in gres.conf, all of it
//
// Slurm takes the Include with its absolute path as it is, and every slurmd reads its
// own container's file. slurmctld follows it as well, so there must be such a file,
// without a line, beside it: the agent writes it too. (A daemon that does not find it
// waits for a minute; slurmd then ends.) Without GresTypes slurmctld drops the GPUs,
// and the node is registered without them: the status and one line of the log say so.
// Without the Include slurmctld refuses the node until gres.conf is right and
// reconfigured; the reason says so.
//
// An instance of MIG has the type of its GPU and "_mig", because /proc does not tell its
// profile: SLURMLET_GRES=gpu:1g.18gb:2 gives it a name. A pod should have one at most:
// Slurm tells jobs the numbers of their GPUs, CUDA wants an instance's UUID.
//
// # The pod's description
//
// A downward-API volume at SLURMLET_PODINFO_DIR is followed while the container
// runs. All of its files may be missing.
//
//	labels       metadata.labels
//	annotations  metadata.annotations; they come before labels of the same name
//	cpu_limit    resourceFieldRef limits.cpu, divisor 1m: in thousandths of a CPU, in SLURMLET_CPU_LIMIT's place
//	mem_limit    resourceFieldRef limits.memory, divisor 1: in bytes, in SLURMLET_MEMORY_LIMIT's place
//
// Labels and annotations that count (slurm.conf(5), node parameters):
//
//	slurmlet.dev/features  Features: names, separated by commas
//	slurmlet.dev/weight    Weight: a whole number
//	slurmlet.dev/topology  Topology, as in default:rack1 (Slurm 25.05 and later)
//
// Annotations of the time that the pod has to end, where it is less than
// SLURMLET_GRACE_PERIOD (see The end):
//
//	slurmlet.dev/grace-period  from SIGTERM to SIGKILL: a duration such as 30s or 10m
//	slurmlet.dev/deadline      when SIGKILL comes, whenever SIGTERM does: a time such as 2006-01-02T15:04:05Z (RFC 3339)
//
// An edit of them changes the node record at once, as jobs run on; one that is
// removed goes back to Slurm's default. What cannot be used is told, and the
// last good values stay; at the start nothing is registered until it is mended.
//
// # slurmctld's configuration
//
// slurmctld does not read the directories that people edit (SLURMLET_CONF_SOURCES,
// such as a ConfigMap's volume). All of their files together are one set, which the
// agent checks, puts in place as a whole (SLURMLET_RUN_DIR/conf) and has slurmctld
// reconfigure with. A second after an edit the nodes run with it. An edit that
// cannot be used changes nothing: the status and the log say which file, which line
// and why, and the last good set stays. It is kept in SLURMLET_STATE_DIR too, so a
// container that starts during a bad edit comes up with it and says so; without one
// the agent exits with 78.
//
//	check     the files are there and are text, no more than 8 MiB each and 32 MiB in all; then, with SLURMLET_PREFLIGHT=parse, packages
//	          slurmconf and slurmconf/check judge them, and Slurm's own parser (scontrol) reads them; with full, a second slurmctld is
//	          started with them besides
//	          and slurmctld has no jobs in a partition that is not there any more
//	wait      while slurmctld tells nodes of jobs (sdiag's agent count), which the next step would drop: at most ten seconds, forty for keys;
//	          after three seconds no jobs are started until the next step is over (the reservation slurmlet-reconfigure, of one minute)
//	swap      slurmctld sees the old set or the new one, nothing between
//	reconfigure  (scontrol reconfigure) a new process has taken over and answers, within two minutes
//	confirm   most of the nodes that answer have reconfigured (slurmd_start_time)
//	keep      the set is the last good one
//
// When one of them fails, the last good set is put back and reconfigured with: since
// 25.11 slurmctld pushes what it has refused, too. Edits that come meanwhile wait,
// and of several the last counts. "slurmlet reload" tries the present content once
// more, waits, and tells what came of it. A slurmctld that answers none of three
// reconfigures in a row, for six minutes, hangs: it is ended, by SIGKILL if it must
// be, and the container with it, so that the next one starts with its state.
//
// What the check refuses, Slurm would. What Slurm takes and is probably meant
// otherwise is live, and told in the status and the log. Keys that Slurm's own parser
// knows are never refused; of a Slurm whose version slurmconf/check does not know, it
// is the only judge.
//
// With SLURMLET_PREFLIGHT=full, what slurmctld itself ends over is known before the
// living one has seen it (Licenses=a:b:c, a job_submit.lua that is missing). The second
// slurmctld runs as the same user in SLURMLET_RUN_DIR/dryrun, and is killed when it serves
// its port, or ends; an edit takes some tenths of a second more, and the container needs
// the memory of an idle slurmctld besides. It harms nobody: it has a state, a PID file and
// a free port of its own, is the only SlurmctldHost, and cannot connect to anything but
// unix sockets (seccomp(2)), so that no node, slurmdbd or other slurmctld hears of it.
// What it was not tried with is not refused: jobs, nodes and reservations; SwitchType,
// JobCompType, BurstBufferType and the programs of slurmctld, which it goes without;
// addresses of nodes. Of accounts it knows what slurmctld has kept in StateSaveLocation.
// Where it cannot be started, or does not say within 15 s what becomes of it, the edit
// goes on without, and a line of the log says so.
//
// Some settings cannot be changed by a reconfigure: AuthType, ClusterName,
// StateSaveLocation and SwitchType, with which jobs would be lost, and SlurmctldPort
// and SlurmdPort, with which the daemons would not find each other. An edit of them is
// refused as long as slurmctld runs, with the daemons that would have to be restarted.
// A slurmctld that starts takes what the sources hold then: to change the port of a
// cluster, edit it, and delete the pods.
//
// A partition that an edit takes away, or gives another name, has its jobs to their end
// first: slurmctld would end them at once, those that wait too. As long as it has any,
// or does not tell, the edit is refused, with the jobs' names, and looked at again
// every 20 seconds; when they are over it is live. With State=DRAIN in its place, or
// scontrol update PartitionName=… State=DRAIN, no new ones come. A job that waits for
// several partitions needs all of them up to 25.05, and one of them since 25.11. Up to
// 25.05 one that was submitted for several, and runs, ends with any of them, and slurmctld
// tells only the one that it runs in: it is not guarded. A slurmctld that starts cannot be
// asked, so it is started with the last good set, and the edit comes after; unless that
// set does not work, or the edit changes what only a start can. With SLURMLET_PREFLIGHT=off
// nobody is asked.
//
// Scripts, files that begin with #!, are executable in the set in place for whoever
// may read them, whatever mode a ConfigMap's volume has: slurmctld runs them as
// PrologSlurmctld=/run/slurmlet/conf/begin.sh, and ships Prolog=prolog.sh, a name
// without a path, to the nodes. Other files are not executable.
//
// Keys (*.key, *.jwks, *.pem, *.p12, slurmdbd.conf) are not copied; the set in place
// has links to them. Whoever uses scontrol in this container sets
// SLURM_CONF=/run/slurmlet/conf/slurm.conf, or reads what may be refused. Names with
// a path before them (Include /etc/slurm/x.conf) are not part of the set.
//
// A slurmd or sackd that missed the new set, or got one that was taken back, finds
// out from slurmctld's agent, which tells the hashes of the files (GET /conf), and is
// restarted to fetch it: after some seconds, three times at most. Jobs and sessions
// live on.
//
// No answer refuses nothing. While slurmctld is silent, or its nodes have not registered
// yet, the agent waits, and the status says for whom. Nodes that have answered decide: if
// most of them go on with the slurmd that they had, slurmd on one of them, an idle one if
// there is one, is restarted into the new set. Where it comes up, the others that have not
// followed are restarted too (a slurmd 24.11 that runs with IgnoreSystemd=yes cannot
// reconfigure, for one); where it does not within a minute, the last good set goes back.
// A slurmctld that answers nothing for six minutes is ended, and the next one starts with
// the edit. Where slurmctld answers and none of its nodes does, the new set stays, is not
// kept as the last good one, and another edit takes its place after 30 seconds.
//
// A slurmctld that is started with another set than the last good one reconfigures with it
// at once, and its nodes decide as about any edit. Not so where only a start of slurmctld can
// change it: the agents of the nodes have their daemons restarted then.
//
// With SLURMLET_CONF_DEFAULTS=on the set in place has a few lines more at the end of
// slurm.conf, and a cgroup.conf if there is none: what a cluster of pods needs, with
// the reason beside each. Nothing that the files set is changed; what an own value
// costs is in the status.
//
// # Resize
//
// When the container's limits change (Kubernetes resizes pods in place), the
// node is drained, its jobs run to their end, and it is registered anew with
// the new size. The kernel tells the agent of the change (inotify on cpu.max,
// cpuset.cpus, memory.max and the volume above). Where it cannot, because
// fs.inotify's limits are reached, the agent looks once a minute.
// SLURMLET_CPU_LIMIT and SLURMLET_MEMORY_LIMIT cannot follow: each is forgotten
// when the kernel's own limit of its kind changes.
//
// # Login
//
// A login pod runs sackd, which vouches for its users and keeps a copy of the
// cluster's configuration in /run/slurm/conf, where Slurm's commands look for it,
// and beside it sshd and, where it is configured, sssd. One that dies is started
// again, after a pause that grows from 100 ms to 30 s with each failure in a row;
// it touches none of the others, and sessions outlive even sshd. The pod is ready
// when all of them are.
//
// sackd takes a new configuration from slurmctld only when it runs as slurm.conf's
// SlurmUser (SLURMLET_SLURM_USER), in 24.11 and 26.05 alike: otherwise it cannot verify
// who has sent it, and is restarted to fetch each one. So is one that was away:
// slurmctld forgets a sackd that it does not reach.
//
// A slurmd's container has sssd in the same way: a job's users and groups are looked up
// there. The node is ready when sssd answers, and its jobs run on when it dies. sssd
// needs some 100 MiB of SLURMLET_RESERVE_MEMORY. Under systemd the machine's own is left alone.
//
// sshd reads SLURMLET_SSHD_CONFIG as it is; the agent adds host keys, and to
// AuthorizedKeysFile the keys of the mounted directory.
//
//   - Host keys: those in SLURMLET_SSH_HOST_KEYS, a Secret, say. Where there are
//     none, an Ed25519 key is made in it: on a volume it stays the same.
//   - Authorized keys: in SLURMLET_SSH_AUTHORIZED_KEYS the file alice, in the
//     format of authorized_keys (sshd(8)), lets alice in. A change of the ConfigMap
//     or Secret counts at once, for new connections.
//
// sshd would refuse files as Kubernetes mounts them, so it gets copies in
// SLURMLET_RUN_DIR with an owner and a mode that it accepts. Nothing is
// privileged: sshd needs the capabilities CHOWN, DAC_OVERRIDE, FOWNER, KILL,
// NET_BIND_SERVICE (for a port below 1024), SETGID, SETUID and SYS_CHROOT, and
// AUDIT_WRITE where it is built to write to the kernel's audit. All of them are
// among a container's default ones.
//
// # The cluster's keys
//
// Whoever has a key of auth/slurm's is root in the cluster. slurm.key and slurm.jwks
// are refused where others may read them (want 0600, or a Secret's defaultMode 0400)
// or where their owner is neither root nor SlurmUser. The daemon gets a copy in
// SLURMLET_RUN_DIR. A key is never in a log, an argument or the status, which tells
// the keys' names.
//
// slurm.key cannot be changed while the cluster runs: what is signed with one is
// refused by all that have the other. It is rotated with slurm.jwks in its place
// (both may be there, slurm.jwks counts), by edits of the Secret:
//
//	slurmlet jwks slurm.key 2026.key              both are accepted, the first signs
//	slurmlet jwks -expire 1h 2026.key slurm.key   the new one signs; the old one's time runs
//	slurmlet jwks 2026.key                        at any time after that
//
// The next edit waits until "slurmlet status" in every pod tells of the one before
// it, with a main process that is younger. Each agent reads an edit as soon as its
// volume has it, and has the daemon hand over to a new process, so that jobs go on
// and come; slurmdbd is restarted, and slurmd follows slurmctld or, 15 seconds later,
// its own volume. An edit that the daemons with the former keys
// would not understand is refused, and the status says why. A container takes what is
// there when it starts.
//
// # Accounting
//
// slurmdbd wants slurmdbd.conf to be SlurmUser's alone, which no file of a Secret
// is: the agent copies all files of SLURMLET_CONF_DIR, a mounted Secret, to
// slurmdbd in SLURMLET_RUN_DIR, with mode 0600. AuthAltParameters must name a JWT
// key there. An edit counts at once, by SIGHUP, or by a restart where slurmdbd can
// take it in no other way (the database, DbdPort, JWT keys); slurmctld keeps what it has
// to tell meanwhile. PidFile should be in /run/slurmdbd, which the agent makes.
//
// slurmdbd is started when its database lets it log in; the reason says why it
// does not. When slurmdbd complains of it later, the agent asks the database until
// it answers, and slurmdbd stays up and Ready: slurmctld keeps its records. An
// upgrade of the database's schema may take as long as it likes: /livez
// succeeds, /readyz and /startupz do not.
//
// slurmctld waits for slurmdbd only where it has no state yet, and then by itself;
// its agent's reason has slurmctld's own words. Later it goes on without. It would
// never tell a slurmdbd of its cluster then that does not know it yet, and no job would be
// accounted for: its agent asks slurmdbd, and has slurmctld reconfigure once.
//
// # REST
//
// slurmrestd reads slurm.conf in SLURMLET_CONF_DIR. With rest_auth/jwt it holds no
// key: slurmctld and slurmdbd judge the tokens (slurm.conf(5), AuthAltTypes=auth/jwt,
// AuthAltParameters=jwt_key=). rest_auth/local does not go with it, since slurmrestd
// then speaks to Slurm as AuthType does: alone, it serves processes of slurmrestd's own
// user and of root on a unix socket, where a sackd vouches for that user:
// SLURMLET_DAEMON_ARGS=unix:/run/slurmrestd/slurmrestd.sock makes one in a directory
// that belongs to the user.
//
// # systemd
//
// On a machine without Kubernetes the agent runs as a unit (images/slurmlet@.service
// in the source): of Type=notify-reload, or notify. The unit is active when the node
// is registered; its status text is the agent's state and reason; a reload is over
// when the daemon's successor is confirmed, or a minute has passed; a stop is the end
// as below, so that TimeoutStopSec must be no less than SLURMLET_GRACE_PERIOD. With
// WatchdogSec, systemd hears of the agent twice in that time.
//
// PrivatePIDs (systemd 257) makes the agent the first process of a pid namespace, and
// PrivateMounts and Delegate let it have a cgroup namespace of its own, as in a
// container. Without them slurmd would make its cgroups beside the unit's.
//
// # The end
//
// SIGTERM ends no job while there is time. slurmd's agent drains the node with
// the reason "slurmlet: pod is terminating" (an admin's drain keeps its own),
// waits until slurmctld says that no job holds it, deletes the node record,
// stops slurmd and exits. It asks slurmctld when a step has ended, not at
// intervals. The kernel tells of that end (inotify on the spool directory); where
// it cannot, because fs.inotify's limits are reached, the agent looks for it every
// second, and slurmctld notices nothing of that. Only where no step runs on this node, and the end comes without a
// sign, it looks every 5 s for an epilog's and once a minute for that of an
// allocation. All of it works without any controller of Kubernetes.
//
// A node is in service from slurmd's READY on, until slurmctld has deleted its record,
// whatever slurmd is doing when SIGTERM comes. With auth/slurm, scontrol gets its
// credentials from slurmd, so that slurmctld cannot be asked without it. Its steps do
// not need it. On the way down, and before, the agent does the following:
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
// Without sackd in the image, the agent waits for slurmd until the deadlines. Where the
// file system of the spool directory does not answer, the agent takes the steps there for
// living ones.
//
// The grace period bounds it (SLURMLET_GRACE_PERIOD, which must be no more than the pod's
// terminationGracePeriodSeconds). With 30 s, 10 min and 24 h of it:
//
//	14.00 s  8m44s    23h58m44s  as long as jobs are waited for; SLURMLET_JOB_SIGNAL goes out its seconds (60 unless given) before
//	                             then batch jobs that may be are requeued (sbatch --requeue, JobRequeue); a job that may not
//	                             gets an AdminComment that says so
//	17.75 s  9m14s    23h59m14s  processes of requeued jobs that ignore SIGTERM are killed
//	21.50 s  9m44s    23h59m44s  the node is set DOWN: a job that is left ends as NODE_FAIL, and its processes get SIGTERM
//	23.38 s  9m49s    23h59m49s  what it has left here is killed
//	25.25 s  9m54s    23h59m54s  slurmd gets SIGTERM, whatever has become of the record; then nothing of a step is left
//	29.00 s  9m59s    23h59m59s  slurmd gets SIGKILL
//	29.50 s  9m59.5s  23h59m59.5s  the agent exits
//
// A cluster often grants a pod less than its terminationGracePeriodSeconds. The kubelet
// does not tell a container so, and its SIGKILL would find the jobs running. Whoever
// knows it tells the agent, and the least time counts:
//
//   - SLURMLET_GRACE_PERIOD, where every deletion of the pod is bounded.
//   - The annotations above. They must be there before the pod is deleted: the kubelet
//     does not update the volumes of a pod that is on its way down. A deadline
//     that is over when SIGTERM comes was wrong, and counts for nothing.
//   - "slurmlet deadline 90s" (or a time), by kubectl exec, at any time, on the way down too.
//
// On the way down, the time that is left then is divided as a grace period is. No
// deadline is ever put off. What cannot be used changes nothing, and is told.
//
// slurmd that stops before jobs are requeued has as long for it as there is from
// then to its SIGKILL: 15 s, 1m15s and 1m15s.
//
// As long as slurmctld does not answer, nothing counts as drained or deleted: the
// agent asks again until the time is over, or for a minute where no step runs on
// the node, and exits with 75 when the record may still be there. The next pod of that name takes the record over and lifts
// the drain. slurmd that ends by itself meanwhile is started again.
//
// When the agent itself is killed, its container ends and all jobs in it. The
// next one has slurmctld requeue those whose batch script ran there, or ends them
// as NODE_FAIL, within seconds after slurmd has registered; what it cannot be
// certain of, slurmctld finds out by itself, within half a minute.
//
// slurmctld has the whole grace period to save its state.
//
// A login pod lets nobody in any more: /run/nologin is written, and sshd's port is
// closed. Whoever is logged in is told on the terminal until when sessions may
// last, and once more when jobs would be requeued; that is the time above at which
// a node is set DOWN. Sessions then get SIGTERM, and later SIGKILL, as steps do.
// sackd lives until the last session is over.
//
// A second SIGTERM changes nothing. A second SIGINT, as from a terminal, stops
// the daemon at once. SIGQUIT logs the status and all goroutines.
//
// "slurmlet drain" and "slurmlet resume" take the node out of service and back by
// hand, for jobs that come; a drain that somebody else has set is left alone.
//
// # Log
//
// The standard output is one JSON object a line: the agent's lines (source
// "slurmlet") and the daemon's. Nobody waits for whoever reads it. A reader that
// stands still costs lines: the agent keeps 1 MiB of them for it, counts those that it
// loses after that, and says how many they were where they would stand. At its end it
// gives the reader a quarter of a second.
//
// # The port and the socket
//
// Everybody who reaches SLURMLET_LISTEN may ask: there the agent tells its state, whether it
// is Ready, its version and the hashes of slurmctld's configuration (/status), its numbers
// (/metrics), what a probe wants to know, and slurmctld's agent waits with whoever wants to
// hear of another configuration (/conf). Requests are GET or HEAD without a body and with a head
// of 8 KiB at most, and come to their end within ten seconds. There are at most 256 connections
// (slurmctld: 1024), and besides twice as many as there can be nodes, and 1024, that wait; of too
// many, the address with the most loses its oldest.
//
// SLURMLET_RUN_DIR/agent.sock is for root and the agent's own user: there is the whole status,
// and there are the commands.
//
// # Metrics
//
// GET /metrics is for Prometheus: the status in numbers. None of its texts is in it,
// which are what people and daemons have written; of names only those of files, keys
// and nodes. Nobody is asked for it: of jobs and other nodes it tells what slurmctld
// said last. Counters begin with the container, times are seconds since 1970, and what
// is not known is not there.
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
//	72   something that the container must have is missing: the daemon, scontrol, sdiag, squeue, a key, a user (EX_OSFILE)
//	75   "slurmlet status", "slurmlet probe": the agent is not Ready; the agent itself: the time was over, and the node record or
//	     jobs may be left (EX_TEMPFAIL)
//	77   Slurm cannot limit jobs by cgroup, and SLURMLET_CGROUP does not go without (EX_NOPERM)
//	78   the configuration or a limit has faults (EX_CONFIG)
//	n    the daemon's own status n: slurmctld ended by itself, or a daemon failed while it was being stopped;
//	     128+n: it was ended by signal n (137: SIGKILL, also when it did not stop within the grace period)
//
// slurmd that ends by itself does not end the container: its job steps live on
// and a new slurmd takes them over, after a pause that grows from 100 ms to 30 s
// with each failure in a row. So it is with sackd, slurmdbd and slurmrestd.
package agent
