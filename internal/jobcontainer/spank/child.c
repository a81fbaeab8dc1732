// This file starts the program, and has what a process does beside one that it has started.
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// child is the program with a verb, the options and more arguments, and what it starts with. The program gets fd 3 and fd
// 4 where they are given.
struct child {
	char *argv[MOST_OPTIONS + 16];
	char *const *env;
	int reply, life;
	pid_t parent;
};

// prepare fills in what a child starts with.
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

pid_t start(const char *verb, char *const more[], char *const env[], int reply, int life) {
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

pid_t start_holder(char *const more[], char *const env[], int reply, int life) {
	static struct child c;
	prepare(&c, "make", more, env, reply, life);
	return spawn(stand_between, &c, 0);
}

int succeeded(pid_t pid) {
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

int guard(pid_t signaller, pid_t child) {
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

void end_as(int status, int own_status) {
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

int number(const char *s) {
	unsigned n = 0;
	while (*s >= '0' && *s <= '9')
		n = n * 10 + (unsigned)(*s++ - '0');
	return (int)n;
}
