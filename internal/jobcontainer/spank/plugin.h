// What the plugin's files share. Each file includes this one first. Only what is marked ENTRY can be seen from outside.
#ifndef PLUGIN_H
#define PLUGIN_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// ENTRY is for what Slurm looks up: compile hides all else.
#define ENTRY __attribute__((visibility("default")))

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

// plugin.c has the SPANK entry points.

// problem is what failed as root. task_init tells it, where srun hears it.
extern char problem[4608];

// fail keeps as the problem what errno says of what has failed, and returns 0: the node is not drained for it.
int fail(const char *what);

// options.c has plugstack.conf's arguments and users' options.

// program is slurmlet-container's path, by program= or beside the plugin.
extern const char *program;

// store is the directory of containers on the node, by store=.
extern const char *store;

// private_dirs are the directories that each job has of its own, by private_dirs=, with commas between them.
extern const char *private_dirs;

// private_processes says whether each job has process numbers of its own, by private_processes=1.
extern int private_processes;

// options are the program's option_count arguments: what the user has given, and with --default= what plugstack.conf has.
#define MOST_OPTIONS 128
extern char *options[MOST_OPTIONS + 1];
extern int option_count;

// wanted says whether the step wants a container of ours.
extern int wanted;

// saves says whether the container is saved, for which each task's own process stays outside of it.
extern int saves;

// read_arguments reads plugstack.conf's arguments. Those that are not the plugin's own are for the program.
int read_arguments(int ac, char **av);

// register_options has Slurm take pyxis' options.
int register_options(spank_t sp);

// check_submission refuses what is wrong on the host of a submission.
int check_submission(void);

// read_variables reads on the node what pyxis' variables say of wanted and saves.
void read_variables(spank_t sp);

// given_value copies what the user has given an option, or its variable.
void given_value(spank_t sp, const char *option, const char *variable, char *text, int size);

// child.c starts the program.

// OUTSIDE is the status of a holder that cannot be in namespaces of its own.
enum { OUTSIDE = 75 };

// start runs the program with a verb, more arguments and the options. The program ends with this process. It writes its
// answer to reply, and what it holds ends when life's other end is closed. Both are -1 where it does neither.
pid_t start(const char *verb, char *const more[], char *const env[], int reply, int life);

// start_holder runs the program in new namespaces of users and mounts, as start does, with the verb make.
pid_t start_holder(char *const more[], char *const env[], int reply, int life);

// succeeded waits for a child, and says whether its status is 0.
int succeeded(pid_t pid);

// guard passes on to a child the signals of the process that signals tasks, and returns the child's status. slurmstepd
// signals the processes that it has forked itself, and this one is the task for it; proctrack/linuxproc passes over this
// one, because it has slurmstepd's name, and signals the child. All signals are blocked.
int guard(pid_t signaller, pid_t child);

// end_as ends this process as a child has ended, or with a status of its own where the child's is 0.
__attribute__((noreturn)) void end_as(int status, int own_status);

// number reads a process' number. atoi(3) of a newer C library would keep the plugin out of images with an older one.
int number(const char *s);

// store.c makes the store's directories.

// make_dir makes a directory that belongs to a user. Who could write beside it may have made another one there.
int make_dir(const char *path, mode_t mode, uid_t uid, gid_t gid);

// make_node makes the store's own directory, as root.
int make_node(void);

// make_slurmd makes the store's own directories when slurmd starts: slurmstepd makes one for each step of
// `srun --container` in oci, as the job's user (oci.conf's ContainerPath), before it loads plugins.
void make_slurmd(void);

// make_store makes the directories of the node and of the user, as root.
int make_store(spank_t sp);

// container.c makes and ends the step's container.

// shared is what became of the container's start: one container serves all tasks of a node.
extern struct shared {
	pthread_mutex_t lock;
	int tried, good, ended;
	int entered, over; // tasks that are in the container, and those that have ended
	size_t size;
	char reply[1 << 20];
} *shared;

// A reply is what is left of the program's answer, from at to end. NUL ends each of its strings.
struct reply {
	char *at, *end;
};

// next returns the reply's next string, and NULL after the last one.
char *next(struct reply *r);

// share_container makes in slurmstepd what the tasks share.
int share_container(void);

// get_container has the first task make the container and the others wait for it, and says whether there is one.
int get_container(spank_t sp);

// end_container counts a task that has ended. After the last one it ends the container's holder, and waits for its end.
void end_container(spank_t sp);

// enter.c has a task enter the container.

// open_namespaces opens those of a process: "user mnt" and perhaps others. They live on where their holder ends before
// they are entered.
int open_namespaces(const char *pid, const char *kinds);

// enter has the task be in the container. The reply is "OK", or "JOINED" for another step's container, then a process,
// its namespaces, "root" or "", the working directory, and the environment.
int enter(spank_t sp);

// save.c saves a container.

// stay returns in a new process, which becomes the task in the container. The task's own process stays outside of it,
// and ends as the task has ended. The last one of the node saves the container before, as the user and in the step's
// cgroup, and fails where that fails: after a task's end, nothing else can make the step fail.
int stay(spank_t sp);

// bundle.c serves steps of Slurm's own --container.

// no_runtime says whether a step asks for a bundle on a node without oci.conf, where it would run on the node's own root.
int no_runtime(spank_t sp);

// check_bundle refuses, where a job is submitted, what no bundle is.
int check_bundle(int image);

// bundle_path is the directory that slurmstepd makes in oci for a step whose bundle it runs by oci.conf.
int bundle_path(spank_t sp, char *path, size_t size);

// tell_command gives the runtime of bundles the step's command, which Slurm 24.11 quotes wrong in oci.conf's %@: a line an
// argument, with a backslash before one, and n for a line's end.
int tell_command(spank_t sp);

// end_bundle removes, as the job's user, what slurmstepd has made in oci for a bundle's step, and what a killed task left.
void end_bundle(spank_t sp);

// private.c gives a job directories and processes of its own.

// own_problem is what failed of them, as problem is of containers.
extern char own_problem[4608];

// own_holder is the process that holds the job's namespaces.
extern int own_holder;

// wants_own says whether jobs have anything of their own.
int wants_own(void);

// own_processes says whether the job's tasks have process numbers of their own.
int own_processes(void);

// make_own is the extern step's. The program keeps what fails for the job's other steps, so that the node is not drained.
void make_own(spank_t sp);

// find_own opens the job's namespaces. The holder's lock says that the number is the holder's still.
int find_own(spank_t sp);

// enter_own enters the job's namespaces, as root.
int enter_own(void);

// become_own has the task go on as a child, which is in the job's namespace of processes. This process stays the one that
// slurmstepd knows.
int become_own(spank_t sp);

// end_own is the extern step's end: the holder ends by its lifeline, and removes what is its own unless it was killed.
void end_own(spank_t sp);

#endif
