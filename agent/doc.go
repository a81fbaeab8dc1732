// Package agent runs one Slurm container, from its start as PID 1 to its orderly end.
//
// # Configuration
//
// Environment variables set everything. docs/reference/settings.md lists them; the
// table is written from variables (variables.go). Another variable that begins with
// SLURMLET_ is a fault. A value that is not allowed is a fault too. The
// agent reports all faults at once. It ignores the variables that Kubernetes makes
// from Services (…_SERVICE_HOST, …_PORT_6817_TCP and so on).
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
// # Processes that Slurm did not start
//
// A process of "kubectl exec" or ssh, or a prolog's, is in the cgroup of the agent, and has the
// oom_score_adj of the container. In a Guaranteed pod that is -997, and tasks of jobs have 0: the
// kernel would kill a task because such a process has filled the memory. When the processes of that
// cgroup use more than SLURMLET_RESERVE_MEMORY, the kernel tells the agent (memory.high). The agent
// moves all that are no daemons (the agent, slurmd and its forks, slurmstepd, sssd and its children)
// to the cgroup "strays", and sets their oom_score_adj to 1000. The cgroup's memory.max is what the
// container has left, without 32 MiB. The kernel kills one of these processes where they need more,
// or where the container is out of memory. The log and the status name it.
//
// That needs a cgroup subtree (SLURMLET_CGROUP=require or prefer) and SLURMLET_OOM_GROUP=clear. A
// process may lower its own oom_score_adj again to that of the container, but root alone leaves
// "strays". Memory of before the move stays counted in the agent's cgroup.
//
// # The pod's disk
//
// The kubelet evicts a pod whose files take more than limits.ephemeral-storage, with a second of grace.
// With SLURMLET_STORAGE_LIMIT the agent counts the files in /tmp, /var/tmp, SLURMLET_TMP_DIR,
// /dev/shm, the spool directory and each emptyDir, as far as they are on the container's writable layer
// or on an emptyDir of the machine's disk. It counts every 10 s while steps run, when a step begins or
// ends, and less often where that takes longer than half a second. At 80 % of the limit it drains the
// node: "slurmlet disk: 830 of 1024 MiB used, 800 MiB by job 7 of alice in /tmp". The job is one of the
// user's that ran here while the user's files grew. Below 70 % it resumes the node. Somebody else's drain
// stays. The container's log and files in other places do not count. An elastic node is suspended when
// its jobs have ended, and gets another pod.
//
// When a step has ended, the agent also counts the files in /tmp, /var/tmp, SLURMLET_TMP_DIR and /dev/shm
// whose users have no process in the container. Those on tmpfs take memory that jobs have asked for.
// With SLURMLET_LEFTOVERS=remove it removes them, where the user had a job here and slurmctld says that
// each of the user's jobs whose steps have run here is over. Files that changed after the look stay.
// While slurmctld does not answer, all of them stay.
//
// # Directories of users
//
// The kubelet makes each emptyDir with mode 0777, in which every user removes and replaces the files
// of others. Before a daemon starts, the agent of slurmd and of a login pod sets the sticky bit of
// /tmp, /var/tmp, /dev/shm and SLURMLET_TMP_DIR, and takes write permission on /run,
// SLURMLET_RUN_DIR and SLURMLET_SPOOL_DIR from all but their owner. A directory above one of these
// gets the sticky bit. If the agent cannot change the mode of one, it exits with 78. A read-only file
// system stays as it is.
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
// The status says whether jobs are held to their own devices (cgroup.conf, ConstrainDevices). Slurm
// needs CAP_SYS_ADMIN in slurmd's container for that, or CAP_BPF and CAP_NET_ADMIN. Without them each
// job of 24.11 runs, can open all devices of the container, and has an error of slurmstepd's in its output;
// in 26.05 every launch fails. slurmctld's status then names the nodes, also those without the
// controller of another Constrain….
//
// Where the container has GPUs or RDMA devices, the status notes a /dev/shm of less than 1 GiB, and
// with RDMA a limit of locked memory (RLIMIT_MEMLOCK).
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
//	          slurmlet-reconfigure, of one minute). wait-nodes ends, because slurmctld 24.11 may hang if many run.
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
// A slurmctld that reconfigures also ends each job that names a node without a record
// (sbatch --nodelist), takes such nodes from reservations, and deletes a reservation whose
// partition is gone. It forgets the begin (sbatch --begin) of jobs whose user has no
// association when AccountingStorageEnforce begins to require one. The agent refuses an edit
// that would do so, names jobs, reservations and nodes, and looks again every 20 seconds. It
// asks slurmctld just before the reconfigure, too. A slurmctld that hangs is configured
// anew without that question. A scontrol reconfigure by hand and a slurmctld that starts are not covered.
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
// and the next one starts with the edit. Before 25.05, slurmctld waits without a limit for
// connections on which nobody says anything before it reconfigures: such a slurmctld is
// ended after twenty seconds, and the log names the connections. If slurmctld answers and none of its nodes does,
// the new set stays, does not become the last good one, and another edit takes its place
// after 30 seconds.
//
// If slurmctld starts with another set than the last good one, it reconfigures with it at
// once, and its nodes decide as they do about any edit. The exception is a set that only a
// start of slurmctld can bring in. The agents of the nodes restart their daemons for it.
//
// Before each start of slurmctld the agent locks StateSaveLocation (the file slurmlet/lock there) for its own life. An
// agent that finds it locked waits, is not Ready, and says who has it. The kernel releases the lock when the agent ends.
// On a file system of several machines (NFS and the like) nothing is locked.
//
// A slurmctld that crashes while it serves is started again in its container: at once, and then after pauses that grow
// from 100 ms. After five crashes, each less than 10 minutes after the start before it, the next one ends the container.
// So does one with an edit under way.
//
// slurmctld saves its state every five seconds. Where the agent does not know that it has ended in order (it was told to
// stop, exited with 0, and did not complain that it cannot save), its start counts as one after a crash:
//
//	ids      slurmctld starts with FirstJobId above each id that is known: of the last save, of the directories of batch
//	         jobs, and of slurmctld's log, which names those of srun, salloc and tasks of arrays, too. As many ids as were
//	         given since the last save are left out twice, and 1000 at least. FirstJobId goes with the next edit, when
//	         slurmctld has saved a higher id. It does not count as a change for the nodes.
//	scripts  The files of jobs that came after the last save are linked into slurmlet/lost/ID in StateSaveLocation, which
//	         only slurmctld's user can read. Those of jobs that slurmctld knows go when it serves.
//	         Where the agent is killed with slurmctld, nothing tells of lost jobs of srun and salloc.
//	report   Each job that slurmctld has acknowledged and does not know is told in the log, in the status and in
//	         slurmlet_jobs_forgotten, until somebody removes its directory, or for 30 days, with at most 10,000 jobs and 256
//	         MiB. Jobs that had started since the last save run again, and are told too.
//
// With SLURMLET_CONF_DEFAULTS=on, the agent adds some lines at the end of slurm.conf in the
// set in place, and a cgroup.conf if there is none. They hold what a cluster of pods needs,
// with the reason beside each. They change nothing that the files set. The status says what
// a value of your own costs. conmgr_max_connections and TreeWidth follow from MaxNodeCount.
//
// # The page for people
//
// "slurmlet web" serves a read-only page of the cluster: nodes, jobs and why they wait,
// partitions, drains, what became of each edit of the configuration, and agents. It is a
// process of its own. It has no key, starts nothing, and may do nothing but ask slurmctld's
// agent at SLURMLET_WEB_SOCKET. The socket has the agent's user and group and the mode 0660,
// so the page runs as another user in that group. slurmctld is asked only while somebody
// looks at the page.
//
//	slurmlet web -listen 127.0.0.1:8818 -passwords /etc/slurmlet/web/users -tokens
//
// Without a name, a reader sees counts, states, Slurm's version and the names of the cluster
// and of all partitions. Names of nodes, users and jobs, reasons and the configuration's history need a name: a password in the
// file of -passwords (htpasswd -B -C 10), or with -tokens one of Slurm's JSON Web Tokens (scontrol
// token). A browser takes the token in the place of the password, with its user's name. The
// agent judges tokens by jwt_key of slurm.conf's AuthAltParameters. It takes none where
// slurm.conf sets PrivateData, has faults, or has no auth/jwt in AuthAltTypes. The page speaks no TLS: put a proxy or an ingress with TLS
// before it.
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
// # Credentials
//
// With auth/slurm, each command of a user's gets a credential at /run/slurm/sack.socket. slurmd and
// sackd serve 150 connections at once, so one user's silent connections would keep all others
// waiting. The agent therefore listens there, and slurmd or sackd behind it. It passes a request on
// when the request is complete, with the ids of the user who makes it.
//
//   - A uid has 16 requests at once with the daemon, all of them have 96. root and SlurmUser, and so
//     the agent's own scontrol, have 16 beside these.
//   - A uid has 64 connections that have not said their request. Another one ends the oldest, and
//     one that takes longer than 10 s ends. A uid has 512 connections with those that wait.
//   - slurmd of 26.05, and sackd of each version, serve their TCP port by the same 150 places. When
//     a request waits for a second and the port has 100 connections, the agent starts a sackd
//     without a port, which gives the credentials until the crowd is over.
//   - A slurmd that is crowded is not taken for one that hangs, unless it takes nobody for 30 s.
//
// The status names the uids that crowd the socket or the port, and /readyz on the agent's socket
// does. The pod stays ready, because the others are served. Where the agent is not root, or lacks
// CAP_SETUID or CAP_SETGID, the daemon has the socket itself, and the agent logs that.
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
// The kubelet sets memory.oom.group of a container: when one user's processes reach a login pod's
// memory limit, the kernel ends all sessions, sshd, sackd and the agent. Where the container's
// cgroup can be made writable (see Cgroups), the agent clears it, so that the kernel kills one
// process, and gives each session a cgroup of its own, with all that it starts. A process that a
// session leaves behind stays there. SLURMLET_CGROUP=require exits with 77 where that is not
// possible, prefer logs it, and off leaves cgroups alone.
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
// counts at once, by SIGHUP, when slurmdbd listens. If the edit changes the database, DbdPort or JWT keys, the
// agent restarts slurmdbd, because SIGHUP does not suffice. slurmctld keeps its records
// meanwhile. PidFile should be in /run/slurmdbd, which the agent makes.
//
// The agent starts slurmdbd when its database lets it log in. Until then, the status says
// why it does not. If slurmdbd complains of the database later, the agent asks the database
// until it answers. slurmdbd stays up and Ready, because slurmctld keeps its records.
//
// A new version of slurmdbd converts its database before it listens on DbdPort, which may
// take hours. SIGTERM and SIGHUP would end it at once until then, because slurmdbd 24.11 and
// 26.05 catch them no sooner. So a slurmdbd that has not listened since its start gets no
// signal: it takes edits and new keys when it listens, and after SIGTERM to the agent it is
// told to end when it listens. It is killed at the end of SLURMLET_GRACE_PERIOD, or of a
// shorter notice. The status and the log say "slurmdbd converts its database or waits for it
// since ...". Meanwhile /livez succeeds, and /readyz and /startupz do not. There is one
// exception. When slurmdbd says that it could not connect to its database, and waits for five
// seconds, it converts nothing, and takes the edit or ends. A slurmdbd that listens has a
// minute of SLURMLET_GRACE_PERIOD to end, and needs some tenths of a second. A DbdBackupHost
// listens when its primary is away only, and counts as one that converts until then.
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
// slurmctld must know the user of a token. 24.11 takes a job of an unknown user, and holds it
// for ever as a job of user 99. slurmctld's agent says so in its log and its status when
// slurmctld first tries to start the job, and writes it into the job's AdminComment.
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
// A suspended job counts as one that runs, as long as a step of it is on the node. slurmctld
// may show its node as IDLE, and would delete the record. If nobody resumes the job in time,
// the agent requeues it, and Slurm holds it then (JobHeldAdmin).
//
// Many nodes may end at the same moment, and each deletion of a record makes slurmctld
// rebuild tables of all nodes. The agent therefore asks slurmctld's agent to drain, resume,
// fail (DOWN) or delete its node (GET /change, signed with auth/slurm's key). slurmctld's
// agent collects requests for 50 ms, and for 500 ms after it has deleted several records. It
// runs one scontrol for all, and tells each agent what slurmctld has said of its node. If
// slurmctld refuses a list, slurmctld's agent asks again for the nodes that are not known to
// be done. After many deletions it asks once whether all of these records are gone; after
// few, each agent deletes its own once more. It takes a request for a node only from the
// address at which that node's agent follows the configuration. If slurmctld's agent is away,
// refuses, or does not answer (5 s; 10 s if it has begun), the node's agent runs scontrol
// itself. It also does so with munge, and with SLURMLET_MERGE=off. Jobs are requeued one by
// one, because slurmctld takes one request for each job anyway.
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
//	                                     kubelet's probes. A slurmd that computes, or waits for a
//	                                     processor or a disk, has six times as long, and twice on the
//	                                     way down.
//	slurmd refuses to launch a job that  slurmctld had forgotten the job's start. It holds the job and
//	runs here already                    drains the node, and the agent lifts both.
//	slurmctld says NOT_RESPONDING        On the way down, the agent restarts slurmd, once.
//	SIGKILL does not end slurmd, or it   On the way down, the agent starts a sackd in slurmd's place.
//	has failed to start three times      scontrol gets its credentials from it. If slurmd is still
//	                                     there at the end, the agent exits with 137, or with 75.
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
// puts no deadline off. A faulty value changes nothing, and the agent reports it. A login pod's
// users are told the new time. A daemon of any role that stops already gets SIGKILL by it.
//
// If the agent stops slurmd before the time for requeues, slurmd has longer until its
// SIGKILL: 15 s, 1m15s and 1m15s.
//
// A job may have ended here while slurmctld could not be reached: its slurmstepd is without tasks,
// and tries every 15 s to tell. The agent does not requeue such a job, and does not set the node
// DOWN, until the time at which it kills what is left (23.38 s above). Then it requeues the job, or
// has it end as NODE_FAIL, and writes into its AdminComment that it had ended.
//
// The record stays until the jobs that ran on the node have ended on their other nodes, because a
// slurmctld that is configured anew would wait for ever for a node without a record. The agent
// asks for the jobs whose steps it has seen since SIGTERM, and for the last 16 jobs whose steps ended
// in the ten minutes before. It deletes the record at the end of the time in any case.
//
// A record that somebody names is not deleted: a job that has not ended (--nodelist, --exclude), or a
// reservation, unless it is one of all nodes. slurmctld keeps such nodes as numbers of records, and a new record gets
// the number of a deleted one. slurmctld's agent asks who names the nodes (squeue, scontrol show reservation), once for
// all that end at the same moment. It drains a named node, and sets it DOWN if no job holds it, with the reason
// "slurmlet: the pod is gone, and job 7 names the node". The node's agent then ends as after a deletion. The agent of
// the next pod of the name lifts the drain. slurmctld's agent asks again every 10 s, as long as there are such records,
// and deletes those that nobody names any more. It finds them by their reasons when it starts, and once an hour. It also
// asks after each deletion, and makes the record anew if a job has come meanwhile. Where slurmctld's agent is not
// asked, the node's agent does the same itself. Without an answer no record goes.
//
// A record that nobody names stays in the same way while a StatefulSet makes the pod again, so that jobs may name the node between
// its two pods: "slurmlet: the pod is gone, and StatefulSet slurm-cpu makes it again". Slurmlet's controller tells slurmctld's
// agent which pods those are, if it may watch StatefulSets (rolling.enabled). slurmctld's agent deletes the record
// when the set is made smaller or deleted, or when the controller has been away for an hour. After its own start it waits five minutes
// for the controller. Where the controller has told nothing, and where slurmctld's agent is not asked, the record goes.
//
// After a resize, slurmctld's agent deletes a named record and makes it anew with the new size, drained. It then has
// slurmctld look up the names of each job and reservation that names it.
//
// While slurmctld does not answer, nothing counts as drained or deleted. The agent asks again
// until the time is over, or for a minute if no step runs on the node. It exits with 75 if the
// record may still be there. The next pod of that name takes the record over and lifts the
// drain. slurmctld keeps a drain's reason until the node's next job and takes no empty one, so
// the agent replaces the reason: "slurmlet: the node takes jobs again". The agent starts a slurmd again that ends by itself meanwhile.
//
// When the agent itself is killed, its container ends with all jobs in it. The next
// container's agent has slurmctld requeue the jobs whose batch script ran there, or end
// them as NODE_FAIL, within seconds after slurmd has registered. slurmctld finds the other
// jobs by itself, within half a minute. The agent of a new pod, whose spool directory is empty,
// does so with the batch jobs that began there 10 s or more before the pod. slurmctld would
// have them RUNNING for minutes if it has been started anew, as after a new installation on a
// kept volume.
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
// # Elastic nodes
//
// slurmctld starts and ends the nodes of an elastic set by its power saving. Their records have
// the flag CLOUD, and stay while there are no pods. A pod of such a set has SLURMLET_ELASTIC=yes.
// Its agent never deletes a record with CLOUD: slurmd would make it anew without CLOUD.
//
// The agent compares the record with the pod when slurmd has registered, and after a resize:
//
//	The record has more than the pod     slurmctld would give jobs what is not there. The agent drains the node
//	(CPUs, memory, disk, GPUs), has no   with a reason, the node is not Ready, and the agent looks again
//	CLOUD, or slurmctld has refused it   until the record is right. Then it lifts the drain.
//	The record has less, or features or  Jobs run. The agent tells it in the log and in the status,
//	a weight other than the pod's        and leaves the record as it is.
//	The topology is another one          The agent brings it up to date.
//
// After SIGTERM the agent looks at the record, has slurmctld drain the node and suspend it when no
// job holds it (state=power_down_asap), and waits for the jobs as above. It exits when slurmctld
// says POWERING_DOWN or POWERED_DOWN, and no step runs here. An admin's drain keeps its reason
// until then; slurmctld lifts it when it suspends the node. Where slurmctld has suspended the node
// before, the agent exits as soon as no step runs. If the record is POWERING_UP, jobs wait for a
// slurmd that has not registered. They wait for that of the next pod, so the agent leaves the
// record as it is. When the time for jobs is over, the agent requeues them, and then
// sends state=power_down_force in place of DOWN. It exits with 75 if slurmctld has not suspended the node in time.
//
// When Kubernetes wants no jobs on the machine, the agent sends power_down_asap in place of a
// drain: the next job gets a pod on another machine.
//
// Where nodes are suspended, slurmctld does not miss a batch job that began before the node's boot
// until ResumeTimeout is over (24.11.5 and 26.05.5). The agent requeues a job that began 10 s or more
// before the container, or has it end as NODE_FAIL: 2 to 4 s after an elastic node is Ready, and
// 25 to 50 s after another node of such a cluster is.
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
// (/metrics), and the answers of probes. slurmctld's agent also tells what the cluster does, in
// numbers, and keeps the requests of agents that wait for another configuration (/conf).
// Requests are GET or HEAD without a body and with a head of 8 KiB at most, and end within ten
// seconds. At most 256
// connections (slurmctld: 1024) are open. At slurmctld's agent, 1024 more may wait, and two
// for each node that there can be. At a node's agent, 64 more may wait for a reading of what
// its processes use. If there are too many, the address with the most loses its oldest.
//
// An agent that has auth/slurm's key signs its request to slurmctld's agent with it, over a
// challenge that it asks for first (/challenge), and accepts only a signed answer. It then
// waits in its node's name, apart from strangers, who never take its place. All nodes may
// come from one address. When slurmctld's agent is new, 10,000 agents come back within ten
// seconds. If the cluster has munge, and no such key, agents wait as strangers do.
//
// SLURMLET_RUN_DIR/agent.sock is for root and the agent's own user. It serves the whole status
// and the commands. At slurmctld's agent, /elastic tells which elastic nodes Slurm wants, and
// /elastic?after=REVISION waits some seconds for another answer than that of Slurmlet-Revision.
//
// # Elastic nodes
//
// An elastic set is a range of nodes that Slurm itself starts and ends (slurm.conf(5),
// SuspendProgram). Each file NAME.json in SLURMLET_ELASTIC_SETS is one set. slurmctld's agent
// follows the directory:
//
//	{"nodes": "gpu-[0-99]", "min": 0, "cpuLimit": "4", "memoryLimit": "16Gi", "gres": "gpu:a100:2", "features": ["gpu"]}
//
//	nodes          all names that there can be, as a host list
//	min            how many nodes stay up; the first ones are started for it (default: 0)
//	idleSeconds    after how long without a job a node is suspended, where slurm.conf says it too: from 26.05 on a
//	               record keeps what its partition said when the record was made (default: as the partition says)
//	cpuLimit       the CPU limit of a pod, as Kubernetes writes it: 4 or 1500m
//	memoryLimit    the memory limit of a pod, as Kubernetes writes it: 16Gi
//	storageLimit   the limit of ephemeral storage (default: none, and then no TmpDisk)
//	memoryReserve  SLURMLET_RESERVE_MEMORY of the pods (default: 64Mi)
//	gres           SLURMLET_GRES of the pods: name[:type][:count],… (default: none)
//	features       Features, a list of names
//	weight         Weight, a whole number (default: 1)
//	topology       Topology, as in default:rack1 (Slurm 25.05 and later)
//
// If a file has a fault, its set stays as it was, and the log and the status name the file, the
// key, the value and what is allowed.
//
// The agent makes a record (State=CLOUD) for each name that has none, and marks it in its
// Comment. It computes the size as a slurmd's agent does. It changes features, weight and
// topology while jobs run. If the size of a set changes, or a set loses names, the agent drains
// these records, waits until no job and no reservation holds them, has slurmctld power them
// down, and deletes them after their pods. A node whose job waits for its pod is drained when it
// is up, because a drain would requeue that job. An administrator's drain or DOWN stays, but goes
// with the record. A record that the agent has not made is never touched.
//
// The sets are a part of slurmctld's configuration (elastic-sets.json in the set of files), so
// their change is an edit. Where slurm.conf does not set it, the agent adds the power saving that
// they need. The programs are links to slurmlet in SLURMLET_RUN_DIR/programs, with a socket beside
// them that is slurmctld's user's alone and answers nothing else:
//
//	resume, suspend, resume-failed  (ResumeProgram, SuspendProgram, ResumeFailProgram) have the agent look at the nodes at once, and succeed
//	                                when it has heard of that, within 5 s.
//	wait-nodes                      (PrologSlurmctld) waits until all nodes of a job are up, because slurmctld itself looks for that every 30 s.
//	                                It ends, too, when the job is not CONFIGURING any more, when slurmctld or the agent does not answer for
//	                                20 or 30 s, when slurmctld reconfigures, and when four fifths of PrologTimeout, or else of PrologEpilogTimeout, are over, after which
//	                                slurmctld would end it and requeue the job. It always succeeds: slurmctld holds a job whose PrologSlurmctld
//	                                fails. After slurmctld's start it lets no job begin before all nodes have registered that answer, and
//	                                for 30 s at most: a slurmctld that was killed may have forgotten that a job runs on another node.
//
// While jobs wait, the agent asks slurmctld for the states of their nodes and of the jobs, every half
// second to 4 s, for all of them at once. slurmctld's line "Node … now responding", which it writes
// with SlurmctldDebug=info and more, has the agent ask at once.
//
// Slurm wants a node's pod unless the record is POWERED_DOWN or POWERING_DOWN. slurmlet's
// controller makes the pods. If a pod does not start for 30 s, the node becomes DOWN with
// Kubernetes' reason, and slurmctld requeues its jobs. A pod that finds no machine has until 30 s
// before ResumeTimeout. The node returns after a minute. If nodes fail again, they return after 2, 4
// and at most 30 minutes. A node whose pod has ended takes jobs again at once.
//
// # Peers
//
// With SLURMLET_PEERS the agent keeps one stream from slurmlet's controller, by TLS. The stream
// begins with the table of the cluster's pods, and then has what changes. The agent puts their
// names into /etc/hosts, so they resolve without DNS, as soon as a pod has its address. It
// never truncates that file, and each of its lines ends in "# slurmlet.dev/peer". A name that
// another line has is left alone, and the status says so. So is one that slurm.conf or
// slurmdbd.conf gives to a host of another role than the pod's: SlurmctldHost, AccountingStorageHost
// and their like. If the agent cannot write the file, it says so once, and DNS is asked.
//
// A single name in SLURMLET_CONTROLLER leads to the slurmctld of the table. Of several, each
// leads to the pod whose name is its first label. Without such a pod DNS has the name. Without
// SLURMLET_CONTROLLER the name is "slurmctld". Other roles may have SLURMLET_CONTROLLER for this.
//
// The agent reads the CA and the token for each connection, because the kubelet replaces them. It
// refuses a token that others than its own user can read. If the controller is away, the last
// table stays. The agent tries again after pauses that grow to 15 s and with the cluster's size,
// at random, so that agents do not come back at once.
//
// The controller also tells what Kubernetes knows of the pod itself:
//
//   - The deadline of a pod that is deleted with less time than SLURMLET_GRACE_PERIOD: it counts as
//     one of "slurmlet deadline" does.
//   - Features, topology and weight that the machine gives its nodes, made of its labels: the Slurm
//     node has its features beside the pod's own, and its topology and weight where the pod has
//     none. They change while jobs run, as the pod's own do.
//   - Why the node must take no jobs, as a cordoned Kubernetes node: the agent drains the node with
//     the reason "slurmlet cordon: machine NAME …", and resumes it when Kubernetes lets jobs come
//     again. A drain of somebody else's stays as it is; while it does, the agent looks at it again after
//     pauses that grow to two minutes, because jobs must not start when it is lifted. If the
//     controller is away, the agent lifts a drain that names another machine than SLURMLET_MACHINE.
//
// slurmctld's agent tells the controller of each node whether jobs hold it (busy), whether none does
// (idle), or whether no slurmd answers (absent), and the reason of a drain. It tells all nodes to a new
// controller, and then those that have changed. It asks slurmctld for the nodes and for suspended jobs each
// SLURMLET_REPORT_INTERVAL, and two seconds after a pod has come or an agent has changed its node. It asks
// nothing while the controller is away. A slurmctld that does not answer changes nothing.
//
// With SLURMLET_CONFIG_MAP slurmctld's agent gets a changed ConfigMap from the controller, and treats it as
// if the kubelet had delivered it. The ConfigMap must have the label slurmlet.dev/conf with the cluster's
// name, and the directory must hold nothing else but keys, which the kubelet alone delivers. The agent takes
// nothing from the controller before the directory has held a version that the controller has told of. What
// the kubelet then delivers later counts as an edit, unless it is the streamed version or an older one. If the
// kubelet has not delivered the streamed version within five minutes, that version stays in use, the
// status tells the fault, and the agent takes no newer one from the controller before the kubelet delivers.
// "slurmlet reload" takes what the directory holds then. A container that starts anew in the pod goes on
// with the streamed version.
//
// With SLURMLET_GONE_PODS=on the agent deletes the record of a pod that is gone, if slurmd made the record
// by registering, no job has it, nobody names it (see The end), and no other pod has its name. A busy record stays until
// its job ends. If Kubernetes knows that the machine is gone too, the agent sets the node DOWN, and slurmctld
// requeues its jobs at once. Jobs that may not be requeued fail, with an AdminComment. The record stays
// until these jobs have ended on their other nodes, or for ten minutes if slurmctld did not name them. As long as
// the node's agent is connected to slurmctld's agent, the node and its jobs are left alone, and the log
// warns. A record that an earlier slurmctld's agent has left goes when it has been DOWN for SlurmdTimeout
// because its slurmd does not answer, no table had its pod for as long, and a slurmlet made it. If the pod had
// SLURMLET_PEERS, it goes when slurmctld has had no answer for a minute, and no table had its pod for as long.
//
// # Metrics of the cluster
//
// GET /metrics of slurmctld's agent has what slurmctld tells of the cluster, before the agent's
// own metrics: all metrics that slurmctld has itself from 25.11 on, by its names, for every
// version, and slurmlet_cluster_…, for which Slurm has none. Bytes are bytes and seconds are
// seconds. Where slurmctld's own value is another one, the metric's help says so. GET
// /metrics/slurm-exporter has the metrics of both generations of slurm-exporter, by its names
// and in its units. "go doc ./internal/slurmctld/clusterview/series" says where the tables are.
//
// The agent asks slurmctld when a client wants to know, and at most once in
// SLURMLET_CLUSTER_INTERVAL, however many clients there are. Each client waits for the answer,
// but at most 8 s or four fifths of the time that Prometheus waits. Then it gets the last values.
// slurmlet_cluster_read_timestamp_seconds says how old the values of each family are, and
// slurmlet_cluster_up is 0 as long as slurmctld does not answer. A family that slurmctld has not
// told of since the agent began has no metrics.
//
// The metrics have names of nodes, partitions, features and licenses. Names of users and
// accounts are there only with SLURMLET_METRICS_USERS, for those with the most jobs. The others
// are added up as "other".
//
// # Metrics
//
// GET /metrics is the status in numbers, for Prometheus. It holds no text that people or
// daemons have written. The only names in it are those of files, keys, nodes and GPUs. The
// agent asks nobody for it. What it tells of jobs and other nodes is what slurmctld said last.
// Counters begin with the container, times are seconds since 1970, and what is unknown is
// missing.
//
// Every role (keys: where auth/slurm is used):
//
//	slurmlet_build_info{version,role}             1, with slurmlet's version and the container's role
//	slurmlet_agent_start_time_seconds             When the agent, and the container, was started
//	slurmlet_state{state}                         1 for the state that the container is in, 0 for the others
//	slurmlet_state_start_time_seconds             When the container came into this state
//	slurmlet_ready                                1 while the daemon does its work, and every service beside it: /readyz succeeds
//	slurmlet_started                              1 once the container has been Ready: /startupz succeeds
//	slurmlet_daemon_running                       1 while there is a main process
//	slurmlet_daemon_restarts_total                Starts of the daemon after the first, without its hand-overs to a new process
//	slurmlet_log_lines_lost_total                 Lines of the log that nobody read in time
//	slurmlet_daemon_start_time_seconds            When the main process began
//	slurmlet_daemon_last_error_timestamp_seconds  When the daemon's last line that was an error came
//	slurmlet_daemon_losses_total                  Lines in which slurmctld has said that it has lost a job, or its state
//	slurmlet_keys_info{signs}                     1, with the name of the key of auth/slurm that signs
//	slurmlet_keys_accepted                        Keys that the daemon accepts
//	slurmlet_keys_timestamp_seconds               When the keys were put in place
//	slurmlet_keys_first_expiry_timestamp_seconds  When the first of the keys expires, if one does
//	slurmlet_keys_refused                         1 while the mounted keys are others, which cannot be used
//
// With SLURMLET_PEERS:
//
//	slurmlet_peers_connected          1 while the stream from slurmlet's controller stands
//	slurmlet_peers_streams_total      Streams from slurmlet's controller that began
//	slurmlet_peers_timestamp_seconds  When the table of the peers was last known to be right
//	slurmlet_peers                    Pods of the cluster in the last table
//	slurmlet_peers_names_taken        Names of peers that other lines of /etc/hosts have with another address
//	slurmlet_peers_names_missing      1 while the agent cannot write peers' names into /etc/hosts
//
// With SLURMLET_PEERS, of slurmctld's agent:
//
//	slurmlet_records_timestamp_seconds  When slurmctld told its nodes last, for slurmlet's controller
//	slurmlet_records_nodes{state}       Nodes as slurmlet's controller is told of them
//	slurmlet_records_waiting            Pods of nodes that are gone whose records stay for now
//	slurmlet_records_deleted_total      Records deleted because their pods are gone
//	slurmlet_records_lost_total         Nodes set DOWN because their machines are gone
//	slurmlet_elastic_timestamp_seconds  When slurmctld told its nodes last, for the elastic node sets
//	slurmlet_elastic_refused            1 while files of SLURMLET_ELASTIC_SETS cannot be used
//	slurmlet_elastic_records{set}       Node records of an elastic set
//	slurmlet_elastic_wanted{set}        Nodes of an elastic set that Slurm wants
//	slurmlet_elastic_starting{set}      Nodes of an elastic set that Slurm wants and that are not up yet
//	slurmlet_elastic_failed{set}        Nodes of an elastic set that are DOWN because they did not start
//	slurmlet_elastic_start_seconds{set} Seconds from when Slurm wanted a node until it was up
//
// From SIGTERM on:
//
//	slurmlet_stopping_start_time_seconds               When SIGTERM came
//	slurmlet_stopping_deadline_timestamp_seconds       When the agent exits at the latest
//	slurmlet_stopping_jobs_deadline_timestamp_seconds  When jobs that still run are requeued or fail (slurmd)
//	slurmlet_stopping_jobs                             Jobs that the end waits for (slurmd)
//	slurmlet_stopping_unanswered                       1 while slurmctld does not answer: if it goes on, the node record or jobs will be left
//	slurmlet_stopping_left                             1 if something could not be done in time, and the node record or jobs may be left
//
// slurmctld:
//
//	slurmlet_records_kept                         Records that stay without a pod: somebody names the nodes, or the pods are made again
//	slurmlet_records_kept_deleted_total           Records deleted that had stayed without a pod
//	slurmlet_jobs_forgotten                       Jobs that slurmctld has forgotten by a crash, and whose directories nobody has removed
//	slurmlet_jobs_run_again_total                 Jobs that run again because slurmctld has forgotten their start by a crash
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
//	slurmlet_config_missed     1 while the daemon has another configuration than slurmctld, in spite of restarts
//	slurmlet_sack_connections  Connections of users to sack.socket
//	slurmlet_sack_ended_total  Connections to sack.socket that were ended, because they said nothing or their uid had too many
//	slurmlet_sack_crowded      1 while a user crowds sack.socket or the daemon's port; the status names the uids
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
//	slurmlet_strays_oom_kills_total        Processes that Slurm did not start and that the kernel has killed for want of memory
//	slurmlet_files_timestamp_seconds       When the agent looked at users' files
//	slurmlet_disk_limit_bytes              The limit of the pod's disk (SLURMLET_STORAGE_LIMIT)
//	slurmlet_disk_used_bytes               Disk that counts against that limit: users' directories, the spool directory and emptyDirs
//	slurmlet_disk_full                     1 while the node is drained because that disk is nearly full
//	slurmlet_left_files_memory_bytes       Memory of files in shared directories whose users have no process here
//	slurmlet_left_files_disk_bytes         Disk of files in shared directories whose users have no process here
//	slurmlet_steps_dead_total              Steps that have lost their slurmstepd
//	slurmlet_steps_leftover_cgroups_total  Empty cgroups that Slurm had left and the agent has removed
//
// slurmd, whose jobs have cgroups of Slurm's (cgroup v2): what they use. The agent reads the
// kernel's files when somebody asks, and once a second at most. A reading that takes longer
// than five seconds is missing from the answer.
//
//	slurmlet_node_jobs_cpu_seconds_total                   CPU time of the node's jobs
//	slurmlet_node_jobs_cpu_user_seconds_total              CPU time of the node's jobs in user mode
//	slurmlet_node_jobs_cpu_system_seconds_total            CPU time of the node's jobs in the kernel
//	slurmlet_node_jobs_cpu_periods_total                   Periods of the own CPU quota of the node's jobs (cpu.max), if there is one
//	slurmlet_node_jobs_cpu_throttled_periods_total         Periods in which the own CPU quota of the node's jobs was used up
//	slurmlet_node_jobs_cpu_throttled_seconds_total         Time for which the own CPU quota of the node's jobs held them up, summed over the CPUs
//	slurmlet_node_jobs_cpu_throttled_by_any_seconds_total  Time for which any CPU quota, also one above, held up the node's jobs, summed over the CPUs (Linux 6.6)
//	slurmlet_node_jobs_cpu_pressure_some_seconds_total     Time in which some threads of the node's jobs waited for a CPU (PSI)
//	slurmlet_node_jobs_cpu_pressure_full_seconds_total     Time in which all threads of the node's jobs waited for a CPU (PSI)
//	slurmlet_node_jobs_memory_usage_bytes                  Memory of the node's jobs, with the files that the kernel caches for them
//	slurmlet_node_jobs_memory_peak_bytes                   The most memory that the node's jobs have had at once (Linux 5.19)
//	slurmlet_node_jobs_memory_anon_bytes                   Memory of the node's jobs that no file backs
//	slurmlet_node_jobs_memory_file_bytes                   Memory of the node's jobs that files back, with memory_shmem_bytes
//	slurmlet_node_jobs_memory_shmem_bytes                  Memory of the node's jobs in tmpfs, /dev/shm and shared segments
//	slurmlet_node_jobs_memory_high_bytes                   The memory above which the kernel slows down the node's jobs, if there is a limit
//	slurmlet_node_jobs_memory_limit_bytes                  The memory limit of the node's jobs, if there is one
//	slurmlet_node_jobs_memory_oom_kills_total              Processes of the node's jobs that the kernel has killed for want of memory
//	slurmlet_node_jobs_memory_pressure_some_seconds_total  Time in which some threads of the node's jobs waited for memory (PSI)
//	slurmlet_node_jobs_memory_pressure_full_seconds_total  Time in which all threads of the node's jobs waited for memory (PSI)
//	slurmlet_node_jobs_swap_usage_bytes                    Swap space of the node's jobs
//	slurmlet_node_jobs_swap_limit_bytes                    The limit of swap space of the node's jobs, if there is one
//	slurmlet_node_jobs_io_read_bytes_total                 Bytes that the node's jobs have read from block devices
//	slurmlet_node_jobs_io_written_bytes_total              Bytes that the node's jobs have written to block devices
//	slurmlet_node_jobs_io_reads_total                      Read operations of the node's jobs on block devices
//	slurmlet_node_jobs_io_writes_total                     Write operations of the node's jobs on block devices
//	slurmlet_node_jobs_io_pressure_some_seconds_total      Time in which some threads of the node's jobs waited for a block device (PSI)
//	slurmlet_node_jobs_io_pressure_full_seconds_total      Time in which all threads of the node's jobs waited for a block device (PSI)
//	slurmlet_node_jobs_threads                             Processes and threads of the node's jobs
//	slurmlet_node_jobs_threads_limit                       The limit of processes and threads of the node's jobs, if there is one
//	slurmlet_node_jobs                                     Jobs that have a cgroup on the node
//	slurmlet_node_jobs_left_out                            Jobs beyond SLURMLET_JOB_METRICS, which have no metrics of their own
//	slurmlet_node_usage_timestamp_seconds                  When the agent read what the node's processes use
//	slurmlet_node_usage_read_seconds                       How long that took
//	slurmlet_node_gpu_present{gpu,type}                    1 while the container has the GPU's device node, 0 if it has vanished since the start
//	slurmlet_node_gpu_memory_bytes{gpu,type}               Memory of the GPU, where its driver tells it without a library (AMD)
//	slurmlet_node_gpu_memory_used_bytes{gpu,type}          Memory of the GPU that is in use, where its driver tells it without a library (AMD)
//
// slurmlet_node_daemons_… tells the same of the agent, slurmd and what they run (prolog,
// epilog, kubectl exec), but for those that it has moved to "strays". slurmlet_node_container_… tells it of the whole container. With
// SLURMLET_JOB_METRICS, slurmlet_job_…{job_id} tells it of so many jobs, the oldest first. In
// 26.05 the agent learns a job's number from its slurmstepds, so a job has no metrics before
// its first slurmstepd runs. No metric names a user.
//
// A slurmstepd counts for its job, as in Slurm's own accounting. A node's counters are those
// of the cgroup that holds all jobs, so they do not fall when a job ends. The agent adds what
// a block device had counted that is gone, and what a cgroup had counted that another has
// replaced. A job's counters begin and end with its cgroup. In an allocation whose last step
// has ended, Slurm makes the cgroup anew for the next step.
//
// The agent tells only the numbers that the kernel keeps. Where a limit is not set, a
// controller is off, PSI is off (psi=0), or the kernel is too old, the line is missing, and
// is no zero. The kernel counts the periods of a quota for the cgroup that has the quota,
// which is the container's. A block device and the devices below it (LVM, RAID, dm-crypt)
// all count. Network file systems and tmpfs have no block device.
//
// Of a GPU the agent tells whether its device node is there and, of AMD's, the memory. Its use,
// temperature and errors need the vendor's library (NVML, ROCm SMI). The agent cannot tell
// which job holds a GPU, because the kernel keeps the devices of a cgroup in an eBPF program,
// and shows the open files of users' processes only with CAP_SYS_PTRACE. slurmctld knows it
// (scontrol show job -d).
//
// login:
//
//	slurmlet_sessions                         Users' sessions
//	slurmlet_service_running{service}         1 while the service serves: sshd, sssd
//	slurmlet_service_restarts_total{service}  Starts of the service after the first
//
// # Exit status
//
// docs/reference/status.md lists the exit statuses (package exitcode). A slurmd that crashes or hangs
// while it stops counts as in order if slurmctld has deleted its record (24.11 does so rarely). One
// that hangs is killed when its socket has not answered for a third of the time that jobs have, or
// 30 s, or twice that if it is busy. The daemon's own status is the container's where slurmctld ended
// by itself before it served, or crashed too often, or a daemon failed while it was being stopped.
// 128+n says that signal n ended the daemon (137: SIGKILL, also when it did not stop within the grace
// period). 75 says that the node record or jobs may be left, too.
//
// If slurmd ends by itself, the container goes on. The job steps live on, and the agent
// starts a new slurmd, which takes them over, after a pause that grows from 100 ms to 30 s
// with each failure in a row. The agent also starts sackd, slurmdbd and slurmrestd again.
package agent
