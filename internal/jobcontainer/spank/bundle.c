// This file serves steps of Slurm's own --container: an OCI bundle, which Slurm runs by oci.conf and else passes by.
#include "plugin.h"

#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int no_runtime(spank_t sp) {
	static char bundle[4096];
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

int check_bundle(int image) {
	const char *given = getenv("SLURM_CONTAINER"), *url = given ? strstr(given, "://") : NULL;
	if (url)
		slurm_error("slurmlet: --container=%s: want the directory of an OCI bundle; for an image: --container-image=%s", given, url + 3);
	else if (given && *given && image)
		slurm_error("slurmlet: --container=%s and --container-image or --container-name: want one of both", given);
	else
		return 0;
	return -1;
}

int bundle_path(spank_t sp, char *path, size_t size) {
	struct stat st;
	uint32_t job = 0, step = 0;
	if (spank_get_item(sp, S_JOB_ID, &job) || spank_get_item(sp, S_JOB_STEPID, &step))
		return 0;
	snprintf(path, size, "%s/oci/%u.%u", store, job, step);
	return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

int tell_command(spank_t sp) {
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

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
	(void)st, (void)type, (void)at;
	remove(path);
	return 0;
}

void end_bundle(spank_t sp) {
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
