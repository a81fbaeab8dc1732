// This file reads what plugstack.conf and the user have given: the plugin's arguments, and pyxis' options and variables.
// It has the program check them on the host of a submission.
#include "plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *program;
const char *store = "/var/lib/slurmlet/containers";
const char *private_dirs = "";
int private_processes;
char *options[MOST_OPTIONS + 1];
int option_count, wanted, saves;

// find_program finds the program beside the plugin, where injection has both, and else where images have it.
static const char *find_program(void) {
	static char path[4096];
	Dl_info self;
	const char *end = dladdr((void *)find_program, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : NULL;
	if (end && snprintf(path, sizeof path, "%.*s/slurmlet-container", (int)(end - self.dli_fname), self.dli_fname) < (int)sizeof path &&
	    !access(path, X_OK))
		return path;
	return "/usr/local/bin/slurmlet-container";
}

// add keeps an option with its value, or without one, as an argument of the program.
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

int read_arguments(int ac, char **av) {
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
	return 0;
}

int register_options(spank_t sp) {
	for (int i = 0; table[i].name; i++) {
		table[i].val = i;
		if (spank_option_register(sp, &table[i])) {
			slurm_error("slurmlet: cannot register --%s; is pyxis' plugin in plugstack.conf, too?", table[i].name);
			return -1;
		}
	}
	return 0;
}

void given_value(spank_t sp, const char *option, const char *variable, char *text, int size) {
	size_t length = strlen(option);
	text[0] = 0;
	for (int i = 0; i < option_count; i++)
		if (!strncmp(options[i], option, length) && snprintf(text, size, "%s", options[i] + length) >= 0)
			return;
	if (spank_getenv(sp, variable, text, size)) // what is longer than there is room for is asked for in the other way
		text[0] = 0;
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

int check_submission(void) {
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

void read_variables(spank_t sp) {
	char any[4];
	for (const char **v = (const char *[]){"PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME", NULL}; *v; v++) {
		any[0] = 0;
		spank_getenv(sp, *v, any, sizeof any); // its beginning is enough
		wanted |= any[0] != 0;
	}
	any[0] = 0;
	spank_getenv(sp, "PYXIS_CONTAINER_SAVE", any, sizeof any);
	saves |= any[0] != 0;
}
