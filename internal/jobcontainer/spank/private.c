// This file gives a job directories and processes of its own. The extern step, which is a job's first on a node, has the
// program make namespaces. Its slurmstepd has the lifeline of who holds them, so they end with the job. The tasks of all
// other steps enter them while they are root.
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct own { const char *kind; int fd; } own[] = {{"user", -1}, {"mnt", -1}, {"pid", -1}, {NULL, -1}};
static int own_lifeline[2] = {-1, -1};
int own_holder;
char own_problem[4608];

int wants_own(void) { return private_dirs[0] || private_processes; }

int own_processes(void) { return own[2].fd >= 0; }

// own_state is the path of what the program keeps of the job, or of a file in it.
static void own_state(spank_t sp, char *path, size_t size, const char *file) {
	uint32_t job = 0;
	spank_get_item(sp, S_JOB_ID, &job);
	snprintf(path, size, "%s/jobs/%u%s", store, job, file);
}

void make_own(spank_t sp) {
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

// own_fail keeps what errno says of what has failed.
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

int find_own(spank_t sp) {
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

int enter_own(void) {
	for (struct own *o = own; o->kind; o++)
		if (o->fd >= 0 && setns(o->fd, 0))
			return own_fail("cannot enter the job's namespaces");
	return 0;
}

int become_own(spank_t sp) {
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

void end_own(spank_t sp) {
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
