// This file makes the store's directories: the node's own, and each user's.
#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int make_dir(const char *path, mode_t mode, uid_t uid, gid_t gid) {
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

int make_node(void) {
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

void make_slurmd(void) {
	char path[4096];
	int failed = make_node();
	for (const char **dir = (const char *[]){"mnt", "oci", NULL}; *dir && !failed; dir++) {
		snprintf(path, sizeof path, "%s/%s", store, *dir);
		failed = make_dir(path, 0755, 0, 0) || (!strcmp(*dir, "oci") && chmod(path, 01777));
	}
	if (failed)
		slurm_error("slurmlet: cannot make %s, and no job can have a container: %s", store, strerror(errno));
}

int make_store(spank_t sp) {
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
