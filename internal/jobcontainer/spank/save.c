// This file saves a container: the task's own process stays outside of it, and does so.
#include "plugin.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

int stay(spank_t sp) {
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
