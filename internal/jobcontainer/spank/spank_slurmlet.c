// Slurm's side of jobs in containers: a SPANK plugin for srun, sbatch, salloc, slurmd and slurmstepd. It registers
// pyxis' options, stores what users give as strings, and has the program slurmlet-container read them: on the host of a
// submission to refuse what is wrong, and in a step's first task on each node to make the container. All tasks enter
// that container then. One file serves all versions of Slurm: it links nothing of Slurm's, and takes the version of the
// program that loads it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// What spank(8) documents, as far as it is used here. Slurm 24.11 and 26.05 have the same layout.
typedef struct spank_handle *spank_t;
enum { S_JOB_UID = 0, S_JOB_GID = 1, S_JOB_ID = 2, S_JOB_STEPID = 3, S_JOB_LOCAL_TASK_COUNT = 6, S_JOB_ARGV = 9,
       S_JOB_ENV = 10, S_TASK_ID = 11, S_TASK_GLOBAL_ID = 12, S_JOB_ALLOC_MEM = 26 };
enum { S_CTX_LOCAL = 1, S_CTX_REMOTE = 2, S_CTX_ALLOCATOR = 3, S_CTX_SLURMD = 4 };
enum { BATCH_STEP = 0xfffffffb, EXTERN_STEP = 0xfffffffc, INTERACTIVE_STEP = 0xfffffffa };
struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	int (*cb)(int val, const char *optarg, int remote);
};
extern int spank_context(void);
extern int spank_option_register(spank_t, struct spank_option *);
extern int spank_get_item(spank_t, int item, ...);
extern int spank_getenv(spank_t, const char *name, char *buf, int len);
extern int spank_setenv(spank_t, const char *name, const char *value, int overwrite);
extern int spank_unsetenv(spank_t, const char *name);
extern void slurm_spank_log(const char *format, ...);
extern void slurm_error(const char *format, ...);

const char plugin_name[] = "slurmlet";
const char plugin_type[] = "spank";
const unsigned int spank_plugin_version = 1;
unsigned int plugin_version;

// own_version takes the release of the program that loads the plugin: libslurm's 42 is 24.11, 43 is 25.05, and so on.
__attribute__((constructor)) static void own_version(void) {
	long (*api)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "slurm_api_version");
	long since = api ? (api() >> 16) - 42 : -1;
	if (since >= 0)
		plugin_version = (unsigned)(24 + (since + 1) / 2) << 16 | (since % 2 ? 5u : 11u) << 8;
}

static const char *program; // see find_program
static const char *store = "/var/lib/slurmlet/containers";
static const char *private_dirs = ""; // what each job has of its own, by private_dirs= and private_processes=
static int private_processes;

// find_program finds the program beside the plugin, where injection has both, and else where images have it.
static const char *find_program(void) {
	static char path[4096];
	Dl_info self;
	const char *end = dladdr((void *)own_version, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : NULL;
	if (end && snprintf(path, sizeof path, "%.*s/slurmlet-container", (int)(end - self.dli_fname), self.dli_fname) < (int)sizeof path &&
	    !access(path, X_OK))
		return path;
	return "/usr/local/bin/slurmlet-container";
}

// OUTSIDE is the status of a holder that cannot be in namespaces of its own.
enum { OUTSIDE = 75 };

// options are what the user has given, and defaults what plugstack.conf has, as arguments of the program.
#define MOST_OPTIONS 128
static char *options[MOST_OPTIONS + 1];
static int option_count, wanted;
static int saves; // the container is saved, for which each task's own process stays outside of it

static int add(const char *name, const char *value) {
	char *text = NULL;
	if (asprintf(&text, value ? "--%s=%s" : "--%s", name, value) < 0)
		return -1;
	for (int i = 0; i < option_count; i++) // Slurm may call twice with the same
		if (!strcmp(options[i], text)) {
			free(text);
			return 0;
		}
	if (option_count == MOST_OPTIONS) {
		slurm_error("slurmlet: more than %d options of containers", MOST_OPTIONS);
		free(text);
		return -1;
	}
	options[option_count++] = text;
	return 0;
}

static int take(int val, const char *optarg, int remote);

#define OPTION(name, arg, usage) {name, arg, "[slurmlet] " usage, arg != NULL, 0, take}
static struct spank_option table[] = {
	OPTION("container-image", "IMAGE", "run in this root: a directory or a squashfs file of the node, or a registry's image"),
	OPTION("container-mounts", "SRC[:DST[:FLAGS]],...", "mount these into the container; + separates flags"),
	OPTION("container-workdir", "PATH", "working directory in the container"),
	OPTION("container-name", "NAME[:auto|create|exec|no_exec]", "keep the container's files on the node under a name"),
	OPTION("container-save", "PATH", "save the container to a squashfs file when the node's last task has ended"),
	OPTION("container-mount-home", NULL, "mount the home directory"),
	OPTION("no-container-mount-home", NULL, "do not mount the home directory"),
	OPTION("container-remap-root", NULL, "be root in the container, without a right outside"),
	OPTION("no-container-remap-root", NULL, "be the same user in the container"),
	OPTION("container-entrypoint", NULL, "run the image's entrypoint once per node, for its environment"),
	OPTION("no-container-entrypoint", NULL, "do not run the image's entrypoint"),
	OPTION("container-entrypoint-log", NULL, "print what the entrypoint prints"),
	OPTION("container-writable", NULL, "the container's root can be written"),
	OPTION("container-readonly", NULL, "the container's root cannot be written"),
	OPTION("container-slurm", NULL, "the node's Slurm is in the container, unless its image has one (default)"),
	OPTION("no-container-slurm", NULL, "the node's Slurm is not in the container"),
	OPTION("container-env", "NAME[,NAME...]", "these variables keep the job's value, others take the image's"),
	OPTION("container-unshare", "net|ipc|uts[,...]", "namespaces that the container has of its own"),
	{0},
};

// Each option has its place in the table as its value, which says whose callback it is.
static int take(int val, const char *optarg, int remote) {
	(void)remote;
	if (!strcmp(table[val].name, "container-image") || !strcmp(table[val].name, "container-name"))
		wanted = 1;
	saves |= !strcmp(table[val].name, "container-save");
	return add(table[val].name, table[val].has_arg ? optarg : NULL);
}

// One container serves all tasks of a node, so they share what became of its start.
struct shared {
	pthread_mutex_t lock;
	int tried, good, ended;
	int entered, over; // tasks that are in the container, and those that have ended
	size_t size;
	char reply[1 << 20];
};
static struct shared *shared;
static int lifeline[2] = {-1, -1}; // its write end is slurmstepd's alone: the holder ends with slurmstepd
static char problem[4608];         // what failed as root; task_init tells it, where srun hears it
static int refused;                // a step that must not run, whether it wants a container of ours or not

static int fail(const char *what) {
	snprintf(problem, sizeof problem, "%s: %s", what, errno == ENOTUNIQ ? "it is no directory, or another user's" : strerror(errno));
	return 0;
}

static void make_slurmd(void); // below, with the store's other directories

int slurm_spank_init(spank_t sp, int ac, char **av) {
	for (int i = 0; i < ac; i++) {
		if (!strncmp(av[i], "program=", 8))
			program = strdup(av[i] + 8);
		else if (!strncmp(av[i], "store=", 6))
			store = strdup(av[i] + 6);
		else if (!strncmp(av[i], "private_dirs=", 13))
			private_dirs = strdup(av[i] + 13);
		else if (!strncmp(av[i], "private_processes=", 18))
			private_processes = !strcmp(av[i] + 18, "1");
		else if (add("default", av[i]))
			return -1;
	}
	if (!program)
		program = find_program();
	int context = spank_context();
	if (context == S_CTX_SLURMD)
		make_slurmd();
	if (context != S_CTX_LOCAL && context != S_CTX_REMOTE && context != S_CTX_ALLOCATOR)
		return 0;
	for (int i = 0; table[i].name; i++) {
		table[i].val = i;
		if (spank_option_register(sp, &table[i])) {
			slurm_error("slurmlet: cannot register --%s; is pyxis' plugin in plugstack.conf, too?", table[i].name);
			return -1;
		}
	}
	return 0;
}

// child is the program with a verb, the options and more arguments, and what it starts with. The program gets fd 3 and fd
// 4 where they are given.
struct child {
	char *argv[MOST_OPTIONS + 16];
	char *const *env;
	int reply, life;
	pid_t parent;
};

static void prepare(struct child *c, const char *verb, char *const more[], char *const env[], int reply, int life) {
	int n = 0;
	memset(c->argv, 0, sizeof c->argv);
	c->argv[n++] = "slurmlet-container";
	c->argv[n++] = (char *)verb;
	for (int i = 0; more && more[i]; i++)
		c->argv[n++] = more[i];
	for (int i = 0; i < option_count; i++)
		c->argv[n++] = options[i];
	c->env = env;
	c->reply = reply;
	c->life = life;
}

// default_signals undoes the handlers of a process that this one has been made of. Those that are ignored stay so.
static void default_signals(void) {
	struct sigaction now;
	for (int sig = 1; sig < NSIG; sig++)
		if (!sigaction(sig, NULL, &now) && now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL)
			signal(sig, SIG_DFL);
}

// become is the program, in a new process.
__attribute__((noreturn)) static void become(const struct child *c) {
	int null = open("/dev/null", O_RDONLY);
	dup2(null, 0);
	dup2(2, 1);
	if (c->reply >= 0) { // neither is 3 or 4 before both are out of the way
		int r = fcntl(c->reply, F_DUPFD_CLOEXEC, 10), l = fcntl(c->life, F_DUPFD_CLOEXEC, 10);
		dup2(r, 3);
		dup2(l, 4);
		syscall(SYS_close_range, 5, ~0U, 1 << 2); // CLOSE_RANGE_CLOEXEC: what slurmstepd has open is its own
	}
	sigset_t none;
	sigemptyset(&none);
	default_signals();
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(program, c->argv, c->env);
	if (errno == ENOENT)
		execve("/.slurmlet/run", c->argv, c->env); // it is that in a container
	errno = access(program, F_OK) ? ENOENT : errno;
	dprintf(2, "slurmlet: cannot run %s: %s\n", program, strerror(errno));
	_exit(127);
}

// A new process that becomes the program borrows its parent's memory until then: a copy of slurmstepd's is what takes
// longest of a start. Its stacks are here, because nobody starts two at once.
static char stacks[2][64 << 10] __attribute__((aligned(16)));

// spawn runs a function in a new process, which no signal meets before it is a program of its own.
static pid_t spawn(int (*run)(void *), struct child *c, int flags) {
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	c->parent = getpid();
	pid_t pid = clone(run, stacks[!(flags & CLONE_VFORK)] + sizeof *stacks, CLONE_VM | SIGCHLD | flags, c);
	int failed = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = failed;
	return pid;
}

// run becomes the program, which ends with its parent.
static int run(void *child) {
	const struct child *c = child;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != c->parent)
		_exit(1);
	become(c);
}

static pid_t start(const char *verb, char *const more[], char *const env[], int reply, int life) {
	static struct child c;
	prepare(&c, verb, more, env, reply, life);
	return spawn(run, &c, CLONE_VFORK);
}

// keep_capabilities has a process in a new namespace of users keep across execve(2) what it may do there. The program
// lets go of what it does not need.
static int keep_capabilities(void) {
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &header, data))
		return -1;
	data[0].inheritable = data[0].permitted;
	data[1].inheritable = data[1].permitted;
	if (syscall(SYS_capset, &header, data))
		return -1;
	for (unsigned capability = 0; capability < 64; capability++)
		if (data[capability / 32].permitted & 1U << capability % 32 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))
			return -1;
	return 0;
}

// hold becomes the program as a holder, which ends with its parent before it has answered.
static int hold(void *child) {
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (keep_capabilities())
		_exit(OUTSIDE);
	become(child);
}

// stand_between is a process between the task and a holder. It has a name by which Slurm takes it for the job's own, so
// that a signal of Slurm's ends both, and it ends with the program's status, or by the task, once the holder has
// answered. The task is not to be the parent of a holder: programs wait for all of their children.
static int stand_between(void *child) {
	struct child *c = child;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_NAME, "slurmlet-contai");
	if (getppid() != c->parent)
		_exit(1);
	pid_t holder = spawn(hold, c, CLONE_VFORK | CLONE_NEWUSER | CLONE_NEWNS);
	sigset_t none;
	sigemptyset(&none);
	default_signals();
	sigprocmask(SIG_SETMASK, &none, NULL);
	syscall(SYS_close_range, 0, ~0U, 0);
	int status;
	if (holder < 0)
		_exit(OUTSIDE);
	while (waitpid(holder, &status, 0) < 0)
		if (errno != EINTR)
			_exit(1);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

// start_holder runs the program in new namespaces of users and mounts.
static pid_t start_holder(char *const more[], char *const env[], int reply, int life) {
	static struct child c;
	prepare(&c, "make", more, env, reply, life);
	return spawn(stand_between, &c, 0);
}

static int succeeded(pid_t pid) {
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

// make_dir makes a directory that belongs to a user. Who could write beside it may have made another one there.
static int make_dir(const char *path, mode_t mode, uid_t uid, gid_t gid) {
	struct stat st;
	if (mkdir(path, mode) == 0)
		return lchown(path, uid, gid);
	if (errno != EEXIST || lstat(path, &st))
		return -1;
	if (S_ISDIR(st.st_mode) && st.st_uid == uid)
		return 0;
	errno = ENOTUNIQ;
	return -1;
}

// make_node makes the store's own directory, as root.
static int make_node(void) {
	char path[4096];
	snprintf(path, sizeof path, "%s", store);
	for (char *p = path + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			mkdir(path, 0755);
			*p = '/';
		}
	// a volume of Kubernetes' may be written by everybody
	return (mkdir(store, 0755) && errno != EEXIST) || chmod(store, 0755) ? -1 : 0;
}

// make_slurmd makes the store's own directories when slurmd starts: slurmstepd makes one for each step of `srun --container`
// in oci, as the job's user (oci.conf's ContainerPath), before it loads plugins.
static void make_slurmd(void) {
	char path[4096];
	int failed = make_node();
	for (const char **dir = (const char *[]){"mnt", "oci", NULL}; *dir && !failed; dir++) {
		snprintf(path, sizeof path, "%s/%s", store, *dir);
		failed = make_dir(path, 0755, 0, 0) || (!strcmp(*dir, "oci") && chmod(path, 01777));
	}
	if (failed)
		slurm_error("slurmlet: cannot make %s, and no job can have a container: %s", store, strerror(errno));
}

// make_store makes the directories of the node and of the user, as root.
static int make_store(spank_t sp) {
	uid_t uid;
	gid_t gid;
	char path[4096];
	if (spank_get_item(sp, S_JOB_UID, &uid) || spank_get_item(sp, S_JOB_GID, &gid))
		return fail("cannot learn the job's user");
	if (make_node())
		return fail(store);
	for (const char **dir = (const char *[]){"mnt", "images", NULL}; *dir; dir++) {
		snprintf(path, sizeof path, "%s/%s", store, *dir);
		if (make_dir(path, 0755, 0, 0))
			return fail(path);
	}
	// the user's own: containers with a name, and images of registries
	for (const char **dir = (const char *[]){"", "images/", NULL}; *dir; dir++) {
		snprintf(path, sizeof path, "%s/%s%u", store, *dir, (unsigned)uid);
		if (make_dir(path, 0700, uid, gid))
			return fail(path);
	}
	return 0;
}

// number reads a process' number. atoi(3) of a newer C library would keep the plugin out of images with an older one.
static int number(const char *s) {
	unsigned n = 0;
	while (*s >= '0' && *s <= '9')
		n = n * 10 + (unsigned)(*s++ - '0');
	return (int)n;
}

// What a job has of its own: the extern step, which is a job's first on a node, has the program make namespaces. Its
// slurmstepd has the lifeline of who holds them, so they end with the job. The tasks of all other steps enter them while
// they are root.
static struct own { const char *kind; int fd; } own[] = {{"user", -1}, {"mnt", -1}, {"pid", -1}, {NULL, -1}};
static int own_lifeline[2] = {-1, -1}, own_holder;
static char own_problem[4608]; // as problem, which may be another one

static int wants_own(void) { return private_dirs[0] || private_processes; }

// own_processes says whether the job's tasks have process numbers of their own.
static int own_processes(void) { return own[2].fd >= 0; }

static void own_state(spank_t sp, char *path, size_t size, const char *file) {
	uint32_t job = 0;
	spank_get_item(sp, S_JOB_ID, &job);
	snprintf(path, size, "%s/jobs/%u%s", store, job, file);
}

// make_own is the extern step's. The program keeps what fails for the job's other steps, so that the node is not drained.
static void make_own(spank_t sp) {
	char state[4096], jobs[4096], size[32], *more[10] = {"--dirs", (char *)private_dirs, "--state", state, "--size", size};
	uint64_t memory = 0;
	own_state(sp, state, sizeof state, "");
	spank_get_item(sp, S_JOB_ALLOC_MEM, &memory);
	snprintf(size, sizeof size, "%llu", (unsigned long long)memory);
	snprintf(jobs, sizeof jobs, "%s/jobs", store);
	if (private_processes)
		more[6] = "--processes";
	if (make_node() || make_dir(jobs, 0700, 0, 0) || pipe2(own_lifeline, O_CLOEXEC)) {
		slurm_error("slurmlet: cannot make the job's own directories: %s: %s", jobs, strerror(errno));
		return;
	}
	int given = option_count;
	option_count = 0; // they are of containers
	pid_t pid = start("private", more, environ, own_lifeline[0], own_lifeline[0]);
	option_count = given;
	close(own_lifeline[0]);
	if (pid < 0 || !succeeded(pid))
		slurm_error("slurmlet: the job has no directories of its own on this node, and its steps will fail");
}

static int own_fail(const char *what) {
	snprintf(own_problem, sizeof own_problem, "%s: %s", what, strerror(errno));
	return -1;
}

// read_line reads a file's beginning, without a line's end.
static int read_line(const char *path, char *text, size_t size) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	if (got < 0)
		return -1;
	text[got] = 0;
	text[strcspn(text, "\n")] = 0;
	return 0;
}

// find_own opens the job's namespaces. The holder's lock says that the number is the holder's still.
static int find_own(spank_t sp) {
	char path[4200], text[512], *save = NULL;
	own_state(sp, path, sizeof path, "/problem");
	if (!read_line(path, text, sizeof text))
		return snprintf(own_problem, sizeof own_problem, "the job has no directories of its own on this node: %s", text), -1;
	own_state(sp, path, sizeof path, "/lock");
	int lock = open(path, O_RDONLY | O_CLOEXEC);
	int held = lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
	if (lock >= 0)
		close(lock);
	own_state(sp, path, sizeof path, "/holder");
	if (!held || read_line(path, text, sizeof text))
		return snprintf(own_problem, sizeof own_problem,
			"the job has no directories of its own on this node: its extern step has made none (slurm.conf needs "
			"PrologFlags=Contain), or has ended"), -1;
	char *pid = strtok_r(text, " ", &save);
	own_holder = pid ? number(pid) : 0;
	for (char *kind; (kind = strtok_r(NULL, " ", &save));)
		for (struct own *o = own; o->kind; o++)
			if (!strcmp(o->kind, kind)) {
				snprintf(path, sizeof path, "/proc/%d/ns/%s", own_holder, kind);
				if ((o->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
					return own_fail(path);
			}
	// slurmstepd makes the directories of PMIx' server in the node's /tmp, which the tasks do not see
	snprintf(path, sizeof path, "%s/mpi", store);
	if (!make_dir(path, 0755, 0, 0))
		spank_setenv(sp, "SLURM_PMIX_TMPDIR", path, 0);
	return 0;
}

// end_own is the extern step's end: the holder ends by its lifeline, and removes what is its own unless it was killed.
static void end_own(spank_t sp) {
	char path[4200];
	if (own_lifeline[1] >= 0)
		close(own_lifeline[1]);
	own_lifeline[1] = -1;
	for (const char **file = (const char *[]){"/holder", "/problem", "/lock", NULL}; *file; file++) {
		own_state(sp, path, sizeof path, *file);
		unlink(path);
	}
	own_state(sp, path, sizeof path, "");
	rmdir(path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
	(void)st, (void)type, (void)at;
	remove(path);
	return 0;
}

// bundle is Slurm's own --container: an OCI bundle, which Slurm runs by oci.conf and else passes by.
static char bundle[4096];

// no_runtime says whether a step asks for a bundle on a node without oci.conf, where it would run on the node's own root.
static int no_runtime(spank_t sp) {
	char path[8192];
	const char *conf = getenv("SLURM_CONF"); // slurmd sets it
	if (spank_getenv(sp, "SLURM_CONTAINER", bundle, sizeof bundle) && !bundle[0])
		return 0;
	const char *end = conf ? strrchr(conf, '/') : NULL;
	snprintf(path, sizeof path, "%.*s/oci.conf", end ? (int)(end - conf) : 10, end ? conf : "/etc/slurm");
	if (!bundle[0] || !access(path, F_OK))
		return 0;
	snprintf(problem, sizeof problem, "--container=%s: this cluster has no oci.conf (jobContainers.enabled of the chart writes one), "
		"and Slurm would run the job on the node's own root", bundle);
	return 1;
}

// check_bundle refuses, where a job is submitted, what no bundle is.
static int check_bundle(int image) {
	const char *given = getenv("SLURM_CONTAINER"), *url = given ? strstr(given, "://") : NULL;
	if (url)
		slurm_error("slurmlet: --container=%s: want the directory of an OCI bundle; for an image: --container-image=%s", given, url + 3);
	else if (given && *given && image)
		slurm_error("slurmlet: --container=%s and --container-image or --container-name: want one of both", given);
	else
		return 0;
	return -1;
}

// bundle_path is the directory that slurmstepd makes in oci for a step whose bundle it runs by oci.conf.
static int bundle_path(spank_t sp, char *path, size_t size) {
	struct stat st;
	uint32_t job = 0, step = 0;
	if (spank_get_item(sp, S_JOB_ID, &job) || spank_get_item(sp, S_JOB_STEPID, &step))
		return 0;
	snprintf(path, size, "%s/oci/%u.%u", store, job, step);
	return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

// tell_command gives the runtime of bundles the step's command, which Slurm 24.11 quotes wrong in oci.conf's %@: a line an
// argument, with a backslash before one, and n for a line's end.
static int tell_command(spank_t sp) {
	char **argv = NULL, *text, *to;
	int argc = 0;
	size_t size = 1;
	if (spank_get_item(sp, S_JOB_ARGV, &argc, &argv))
		return -1;
	for (int i = 0; i < argc; i++)
		size += 2 * strlen(argv[i]) + 1;
	if (!(to = text = malloc(size)))
		return -1;
	for (int i = 0; i < argc; i++) {
		for (const char *c = argv[i]; *c; c++) {
			if (*c == '\n' || *c == '\\')
				*to++ = '\\';
			*to++ = *c == '\n' ? 'n' : *c;
		}
		*to++ = '\n';
	}
	*to = 0;
	int failed = spank_setenv(sp, "SLURMLET_COMMAND", text, 1);
	free(text);
	return failed ? -1 : 0;
}

// end_bundle removes, as the job's user, what slurmstepd has made in oci for a bundle's step, and what a killed task left.
static void end_bundle(spank_t sp) {
	char path[4200];
	uid_t uid = 0;
	gid_t gid = 0;
	if (!bundle_path(sp, path, sizeof path) || spank_get_item(sp, S_JOB_UID, &uid) || spank_get_item(sp, S_JOB_GID, &gid))
		return;
	pid_t pid = fork();
	if (pid == 0) {
		if (!setgroups(0, NULL) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid))
			nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int slurm_spank_exit(spank_t sp, int ac, char **av) {
	(void)ac, (void)av;
	uint32_t step = 0;
	if (wants_own() && spank_context() == S_CTX_REMOTE && !spank_get_item(sp, S_JOB_STEPID, &step) && step == EXTERN_STEP)
		end_own(sp);
	if (spank_context() == S_CTX_REMOTE)
		end_bundle(sp);
	return 0;
}

// In a task that is root still: Slurm changes to the task's directory afterwards, and becomes the user.
int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av) {
	(void)sp, (void)ac, (void)av;
	if (!wants_own() || own_problem[0])
		return 0;
	for (struct own *o = own; o->kind; o++)
		if (o->fd >= 0 && setns(o->fd, 0))
			return own_fail("cannot enter the job's namespaces"), 0; // task_init tells it, where srun hears it
	return 0;
}

// guard passes on to a child the signals of the process that signals tasks, and returns the child's status. slurmstepd
// signals the processes that it has forked itself, and this one is the task for it; proctrack/linuxproc passes over this
// one, because it has slurmstepd's name, and signals the child. All signals are blocked.
static int guard(pid_t signaller, pid_t child) {
	sigset_t all;
	sigfillset(&all);
	prctl(PR_SET_DUMPABLE, 0); // it has slurmstepd's memory, which is not the user's to read
	for (int status;;) {
		siginfo_t info;
		int sig = sigwaitinfo(&all, &info);
		if (waitpid(child, &status, WNOHANG) == child)
			return status;
		if (sig > 0 && sig != SIGCHLD && info.si_code == SI_USER && info.si_pid == signaller)
			kill(child, sig);
	}
}

// end_as ends this process as a child has ended, or with a status of its own where the child's is 0.
__attribute__((noreturn)) static void end_as(int status, int own_status) {
	if (WIFSIGNALED(status)) {
		sigset_t all;
		sigfillset(&all);
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(WTERMSIG(status), SIG_DFL);
		sigprocmask(SIG_UNBLOCK, &all, NULL);
		kill(getpid(), WTERMSIG(status));
		_exit(128 + WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status) ? WEXITSTATUS(status) : own_status);
}

// become_own has the task go on as a child, which is in the job's namespace of processes. This process stays the one that
// slurmstepd knows.
static int become_own(spank_t sp) {
	int terminal = isatty(0) && getsid(0) == getpid();
	struct sigaction hangup, ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGHUP, &ignore, &hangup);
	if (terminal) // a session has one, and the child's is to have it
		ioctl(0, TIOCNOTTY);
	sigset_t all, before;
	signal(SIGCHLD, SIG_DFL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t slurmstepd = getppid(), child = fork();
	if (child < 0)
		return own_fail("cannot start a process in the job's namespace");
	if (child == 0) {
		char text[16];
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsid();
		if (terminal)
			ioctl(0, TIOCSCTTY, 0);
		sigaction(SIGHUP, &hangup, NULL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		snprintf(text, sizeof text, "%d", (int)getpid());
		spank_setenv(sp, "SLURM_TASK_PID", text, 1);
		return 0;
	}
	syscall(SYS_close_range, 0, ~0U, 0);
	end_as(guard(slurmstepd, child), 0);
}

// is_plain says whether there is nothing to check, so that the most common steps do not wait for the program: an image by
// an absolute path, at most one option without a value, and no variables. What plugstack.conf says, the node reads. The
// users of salloc are told something, whatever they give.
static int is_plain(void) {
	int switches = 0, images = 0;
	if (!strcmp(program_invocation_short_name, "salloc"))
		return 0;
	for (int i = 0; i < option_count; i++) {
		if (!strncmp(options[i], "--default=", 10))
			continue;
		if (!strchr(options[i], '='))
			switches++;
		else if (!strncmp(options[i], "--container-image=/", 19))
			images++;
		else
			return 0;
	}
	for (char **variable = environ; *variable; variable++)
		if (!strncmp(*variable, "PYXIS_", 6))
			return 0;
	return images == 1 && switches <= 1;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av) {
	(void)ac, (void)av;
	int context = spank_context();
	if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR) {
		const char *image = getenv("PYXIS_CONTAINER_IMAGE"), *name = getenv("PYXIS_CONTAINER_NAME");
		if (check_bundle(wanted || (image && *image) || (name && *name)))
			return -1;
		int given = 0;
		for (int i = 0; i < option_count; i++)
			given |= strncmp(options[i], "--default=", 10) != 0;
		if ((!given && !(image && *image) && !(name && *name)) || is_plain())
			return 0;
		char *by[] = {"--by", program_invocation_short_name, NULL};
		pid_t pid = start("check", by, environ, -1, -1);
		return pid > 0 && succeeded(pid) ? 0 : -1;
	}
	if (context != S_CTX_REMOTE)
		return 0;
	char any[4];
	uint32_t step = 0;
	spank_get_item(sp, S_JOB_STEPID, &step);
	for (const char **v = (const char *[]){"PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME", NULL}; *v; v++) {
		any[0] = 0;
		spank_getenv(sp, *v, any, sizeof any); // its beginning is enough
		wanted |= any[0] != 0;
	}
	any[0] = 0;
	spank_getenv(sp, "PYXIS_CONTAINER_SAVE", any, sizeof any);
	saves |= any[0] != 0;
	// salloc's own shell stays on the node, as with pyxis: its srun makes containers
	if (step == EXTERN_STEP || step == INTERACTIVE_STEP)
		wanted = 0;
	refused = step != EXTERN_STEP && no_runtime(sp);
	if (wants_own() && step == EXTERN_STEP)
		make_own(sp);
	else if (wants_own())
		find_own(sp);
	return wanted ? make_store(sp) : 0;
}

int slurm_spank_user_init(spank_t sp, int ac, char **av) {
	(void)sp, (void)ac, (void)av;
	if (!wanted)
		return 0;
	void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || pipe2(lifeline, O_CLOEXEC))
		return fail("cannot share memory with the tasks");
	shared = memory;
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shared->lock, &a);
	return 0;
}

// read_reply keeps what the program answers.
static void read_reply(int fd) {
	shared->size = 0;
	for (ssize_t got = 1; shared->size < sizeof shared->reply - 1 && got;) {
		got = read(fd, shared->reply + shared->size, sizeof shared->reply - 1 - shared->size);
		if (got > 0)
			shared->size += got;
		else if (got < 0 && errno != EINTR)
			break;
	}
}

// given copies what the user has given an option, or its variable.
static void given(spank_t sp, const char *option, const char *variable, char *text, int size) {
	size_t length = strlen(option);
	text[0] = 0;
	for (int i = 0; i < option_count; i++)
		if (!strncmp(options[i], option, length) && snprintf(text, size, "%s", options[i] + length) >= 0)
			return;
	if (spank_getenv(sp, variable, text, size)) // what is longer than there is room for is asked for in the other way
		text[0] = 0;
}

// is_here says whether the container can be made without a look at registries and other containers: of a path, or of an
// image by its digest, and without a name.
static int is_here(spank_t sp) {
	char text[4096];
	given(sp, "--container-name=", "PYXIS_CONTAINER_NAME", text, sizeof text);
	if (text[0])
		return 0;
	given(sp, "--container-image=", "PYXIS_CONTAINER_IMAGE", text, sizeof text);
	return text[0] == '/' || text[0] == '.' || strstr(text, "@sha256:") || strstr(text, ".sqsh");
}

// ask_container has the program make the container, or find the one that runs, and keeps its reply. The short way is one
// start of the program; what it cannot do there, the program does in two.
static void ask_container(spank_t sp) {
	uint32_t step = 0;
	int argc = 0, reply[2], n = 2, here = is_here(sp);
	char uid[16], gid[16], **argv = NULL, **env = NULL, *more[12] = {"--store", (char *)store};
	spank_get_item(sp, S_JOB_STEPID, &step);
	if (step == BATCH_STEP && !spank_get_item(sp, S_JOB_ARGV, &argc, &argv) && argc > 0) {
		more[n++] = "--script";
		more[n++] = argv[0];
	}
	snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
	snprintf(gid, sizeof gid, "%u", (unsigned)getegid());
	more[n++] = "--uid";
	more[n++] = uid;
	more[n++] = "--gid";
	more[n++] = gid;
	if (spank_get_item(sp, S_JOB_ENV, &env))
		return;
	for (; here >= 0; here--) {
		if (pipe2(reply, O_CLOEXEC))
			return;
		pid_t pid = here ? start_holder(more, env, reply[1], lifeline[0]) : start("enter", more, env, reply[1], lifeline[0]);
		close(reply[1]);
		if (pid > 0)
			read_reply(reply[0]);
		close(reply[0]);
		if (here && pid > 0 && shared->size) // the holder has left what is between it and the task
			kill(pid, SIGKILL);
		int status = 0, ended = pid > 0 && waitpid(pid, &status, 0) == pid;
		shared->good = ended && shared->size && (here || (WIFEXITED(status) && !WEXITSTATUS(status)));
		if (!here || (shared->good && strcmp(shared->reply, "OUTSIDE")) ||
		    (!shared->good && !(ended && WIFEXITED(status) && WEXITSTATUS(status) == OUTSIDE)))
			return;
	}
}

// next returns the reply's next string, which NUL ends. A task changes its own copy.
static char *reply_end;
static char *next(char **at) {
	if (*at >= reply_end)
		return NULL;
	char *s = *at;
	*at += strlen(s) + 1;
	return s;
}

// namespaces are the container's, open. They live on where their holder ends before they are entered.
static int namespaces[8], namespace_count;

// open_namespaces opens those of a process: "user mnt" and perhaps others.
static int open_namespaces(const char *pid, const char *kinds) {
	char path[64];
	for (const char *kind = kinds; *kind; kind += strspn(kind, " ")) {
		int length = (int)strcspn(kind, " ");
		snprintf(path, sizeof path, "/proc/%s/ns/%.*s", pid, length, kind);
		int fd = namespace_count < 8 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0) {
			while (namespace_count)
				close(namespaces[--namespace_count]);
			return -1;
		}
		namespaces[namespace_count++] = fd;
		kind += length;
	}
	return 0;
}

static int join(const char *pid, const char *kinds) {
	if (!namespace_count && open_namespaces(pid, kinds))
		return -1;
	for (int i = 0; i < namespace_count; i++) {
		if (setns(namespaces[i], 0))
			return -1;
		close(namespaces[i]);
	}
	return 0;
}

// make_container is the first task's. A container that runs may end before it is joined: then it is to be started.
static void make_container(spank_t sp) {
	for (int tries = 0; tries < 100; tries++) {
		ask_container(sp);
		if (!shared->good)
			return;
		char *at = shared->reply;
		shared->reply[shared->size] = 0;
		reply_end = at + shared->size;
		char *ok = next(&at), *pid = next(&at), *kinds = next(&at);
		if (!kinds || !open_namespaces(pid, kinds) || strcmp(ok, "JOINED"))
			return;
		usleep(10000);
	}
}

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "another architecture needs its name here"
#endif

// pretend_ids has chown(2) and set*id(2) succeed without effect: one user is mapped, and package managers ask for more.
static int pretend_ids(void) {
	static const unsigned short calls[] = {
#ifdef SYS_chown
		SYS_chown, SYS_lchown,
#endif
		SYS_fchown, SYS_fchownat, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid,
		SYS_setgroups, SYS_setfsuid, SYS_setfsgid,
	};
	enum { CALLS = sizeof calls / sizeof *calls };
	struct sock_filter code[CALLS + 6] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 0, CALLS + 1),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	int n = 3;
	for (int i = 0; i < CALLS; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], CALLS - i, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO);
	struct sock_fprog p = {n, code};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

// set_task gives a task of PyTorch's its rank, as pyxis does.
static void set_task(spank_t sp) {
	int local = 0;
	uint32_t global = 0;
	char number[16];
	if (spank_get_item(sp, S_TASK_ID, &local) || spank_get_item(sp, S_TASK_GLOBAL_ID, &global))
		return;
	snprintf(number, sizeof number, "%u", global);
	spank_setenv(sp, "RANK", number, 0);
	snprintf(number, sizeof number, "%d", local);
	spank_setenv(sp, "LOCAL_RANK", number, 0);
}

// The reply is "OK", or "JOINED" for another step's container, then a process, its namespaces, "root" or "", the working directory, and the environment.
static int enter(spank_t sp) {
	char *at = malloc(shared->size + 1);
	if (!at)
		return -1;
	memcpy(at, shared->reply, shared->size + 1); // a NUL follows
	reply_end = at + shared->size;
	char *ok = next(&at), *pid = next(&at), *kinds = next(&at), *root = next(&at), *dir = next(&at);
	if (!dir || (strcmp(ok, "OK") && strcmp(ok, "JOINED")))
		return slurm_spank_log("slurmlet: %s has answered what this plugin does not know", program), -1;
	if (join(pid, kinds))
		return slurm_spank_log("slurmlet: cannot enter the container: %s", strerror(errno)), -1;
	if (chdir(dir))
		return slurm_spank_log("slurmlet: --container-workdir %s: %s", dir, strerror(errno)), -1;
	for (char *name; (name = next(&at));) {
		char *value = strchr(name, '=');
		if (!value) {
			spank_unsetenv(sp, name);
			continue;
		}
		*value++ = 0;
		if (spank_setenv(sp, name, value, 1))
			return slurm_spank_log("slurmlet: cannot set %s", name), -1;
		if (!strcmp(name, "PYTORCH_VERSION"))
			set_task(sp);
	}
	if (*root && pretend_ids())
		return slurm_spank_log("slurmlet: cannot filter system calls: %s", strerror(errno)), -1;
	return 0;
}

// saving is the program that saves the container. A signal that is for the task ends it.
static volatile pid_t saving;

static void end_save(int sig) {
	if (saving > 0)
		kill(saving, sig);
}

// save has the program save the container, whose holder is the reply's second string.
static int save(char *const env[], const sigset_t *mask) {
	char *more[] = {"--store", (char *)store, "--holder", shared->reply + strlen(shared->reply) + 1, NULL};
	for (int *sig = (int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, 0}; *sig; sig++)
		sigaction(*sig, &(struct sigaction){.sa_handler = end_save, .sa_flags = SA_RESTART}, NULL); // execve(2) undoes it
	sigprocmask(SIG_SETMASK, mask, NULL);
	saving = start("save", more, env, -1, -1);
	return saving > 0 && succeeded(saving);
}

// stay returns in a new process, which becomes the task in the container. The task's own process stays outside of it,
// and ends as the task has ended. The last one of the node saves the container before, as the user and in the step's
// cgroup, and fails where that fails: after a task's end, nothing else can make the step fail.
static int stay(spank_t sp) {
	uint32_t tasks = 0;
	char **env = NULL;
	sigset_t all, before;
	if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) || spank_get_item(sp, S_JOB_ENV, &env))
		return -1;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	signal(SIGCHLD, SIG_DFL);
	pid_t signaller = getppid(), task = fork(); // 0 where it has process numbers of its own
	if (task <= 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		return (int)task;
	}
	int null = open("/dev/null", O_RDWR);
	dup2(null, 0); // the task's are its own: a reader waits for their ends
	dup2(null, 1);
	syscall(SYS_close_range, 3, ~0U, 0);
	int status = guard(signaller, task), saved = 1;
	if (__atomic_add_fetch(&shared->over, 1, __ATOMIC_SEQ_CST) == (int)tasks && shared->entered == (int)tasks)
		saved = save(env, &before);
	end_as(status, !saved);
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
	(void)ac, (void)av;
	if (own_problem[0] || (own_processes() && become_own(sp)))
		return slurm_spank_log("slurmlet: %s", own_problem), -1;
	char path[4200];
	if (bundle_path(sp, path, sizeof path) && tell_command(sp))
		return slurm_spank_log("slurmlet: cannot tell the container its command: %s", strerror(errno)), -1;
	if (!wanted && !refused)
		return 0;
	if (problem[0])
		return slurm_spank_log("slurmlet: %s", problem), -1;
	if (!shared)
		return -1;
	close(lifeline[1]);
	if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD) // the first task was killed on its way
		pthread_mutex_consistent(&shared->lock);
	if (!shared->tried) {
		shared->tried = 1;
		make_container(sp);
	}
	int good = shared->good;
	pthread_mutex_unlock(&shared->lock);
	close(lifeline[0]);
	if (!good || (saves && stay(sp)) || enter(sp))
		return -1;
	__atomic_add_fetch(&shared->entered, 1, __ATOMIC_SEQ_CST);
	if (saves)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return 0;
}

// The last task's end ends the holder, before Slurm kills what the step has left, and before the step is over: a next
// step may take the container's name.
int slurm_spank_task_exit(spank_t sp, int ac, char **av) {
	(void)ac, (void)av;
	uint32_t tasks = 0;
	if (!wanted || !shared || spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) || ++shared->ended < (int)tasks)
		return 0;
	char *at = shared->reply, *ok, *pid;
	// The tasks write there, as the user: what they say of its size is not believed.
	shared->reply[sizeof shared->reply - 1] = 0;
	reply_end = at + (shared->size < sizeof shared->reply ? shared->size : 0);
	ok = next(&at);
	pid = next(&at);
	if (own_processes() && shared->good && pid && !strcmp(ok, "OK")) { // the number is one of the job's
		char process[64];
		snprintf(process, sizeof process, "/proc/%d/root/proc/%d", own_holder, number(pid));
		close(lifeline[1]);
		lifeline[1] = -1;
		for (int i = 0; i < 1000 && !access(process, F_OK); i++)
			usleep(1000);
		return 0;
	}
	int holder = shared->good && pid && !strcmp(ok, "OK") ? (int)syscall(SYS_pidfd_open, number(pid), 0) : -1;
	close(lifeline[1]);
	lifeline[1] = -1;
	if (holder >= 0) {
		poll(&(struct pollfd){.fd = holder, .events = POLLIN}, 1, 1000);
		close(holder);
	}
	return 0;
}
