// This file has the first task of a step make the container, and ends the container after the last one.
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared *shared;
static int lifeline[2] = {-1, -1}; // its write end is slurmstepd's alone: the holder ends with slurmstepd

int share_container(void) {
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

// is_here says whether the container can be made without a look at registries and other containers: of a path, or of an
// image by its digest, and without a name.
static int is_here(spank_t sp) {
	char text[4096];
	given_value(sp, "--container-name=", "PYXIS_CONTAINER_NAME", text, sizeof text);
	if (text[0])
		return 0;
	given_value(sp, "--container-image=", "PYXIS_CONTAINER_IMAGE", text, sizeof text);
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

char *next(struct reply *r) {
	if (r->at >= r->end)
		return NULL;
	char *s = r->at;
	r->at += strlen(s) + 1;
	return s;
}

// make_container is the first task's. A container that runs may end before it is joined: then it is to be started.
static void make_container(spank_t sp) {
	for (int tries = 0; tries < 100; tries++) {
		ask_container(sp);
		if (!shared->good)
			return;
		struct reply r = {shared->reply, shared->reply + shared->size};
		*r.end = 0;
		char *ok = next(&r), *pid = next(&r), *kinds = next(&r);
		if (!kinds || !open_namespaces(pid, kinds) || strcmp(ok, "JOINED"))
			return;
		usleep(10000);
	}
}

int get_container(spank_t sp) {
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
	return good;
}

void end_container(spank_t sp) {
	uint32_t tasks = 0;
	if (!shared || spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) || ++shared->ended < (int)tasks)
		return;
	// The tasks write there, as the user: what they say of its size is not believed.
	shared->reply[sizeof shared->reply - 1] = 0;
	struct reply r = {shared->reply, shared->reply + (shared->size < sizeof shared->reply ? shared->size : 0)};
	char *ok = next(&r), *pid = next(&r);
	if (own_processes() && shared->good && pid && !strcmp(ok, "OK")) { // the number is one of the job's
		char process[64];
		snprintf(process, sizeof process, "/proc/%d/root/proc/%d", own_holder, number(pid));
		close(lifeline[1]);
		lifeline[1] = -1;
		for (int i = 0; i < 1000 && !access(process, F_OK); i++)
			usleep(1000);
		return;
	}
	int holder = shared->good && pid && !strcmp(ok, "OK") ? (int)syscall(SYS_pidfd_open, number(pid), 0) : -1;
	close(lifeline[1]);
	lifeline[1] = -1;
	if (holder >= 0) {
		poll(&(struct pollfd){.fd = holder, .events = POLLIN}, 1, 1000);
		close(holder);
	}
}
