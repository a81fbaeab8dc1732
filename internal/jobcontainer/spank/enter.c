// This file has a task enter the container that the first task has made.
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// namespaces are the container's, open. They live on where their holder ends before they are entered.
static int namespaces[8], namespace_count;

int open_namespaces(const char *pid, const char *kinds) {
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

// join enters the namespaces, and opens them before where that is still to do.
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
	char text[16];
	if (spank_get_item(sp, S_TASK_ID, &local) || spank_get_item(sp, S_TASK_GLOBAL_ID, &global))
		return;
	snprintf(text, sizeof text, "%u", global);
	spank_setenv(sp, "RANK", text, 0);
	snprintf(text, sizeof text, "%d", local);
	spank_setenv(sp, "LOCAL_RANK", text, 0);
}

int enter(spank_t sp) {
	char *text = malloc(shared->size + 1);
	if (!text)
		return -1;
	memcpy(text, shared->reply, shared->size + 1); // a NUL follows
	struct reply r = {text, text + shared->size};
	char *ok = next(&r), *pid = next(&r), *kinds = next(&r), *root = next(&r), *dir = next(&r);
	if (!dir || (strcmp(ok, "OK") && strcmp(ok, "JOINED")))
		return slurm_spank_log("slurmlet: %s has answered what this plugin does not know", program), -1;
	if (join(pid, kinds))
		return slurm_spank_log("slurmlet: cannot enter the container: %s", strerror(errno)), -1;
	if (chdir(dir))
		return slurm_spank_log("slurmlet: --container-workdir %s: %s", dir, strerror(errno)), -1;
	for (char *name; (name = next(&r));) {
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
