// Slurm's side of jobs in containers: a SPANK plugin for srun, sbatch, salloc, slurmd and slurmstepd. It registers
// pyxis' options, stores what users give as strings, and has the program slurmlet-container read them: on the host of a
// submission to refuse what is wrong, and in a step's first task on each node to make the container. All tasks enter
// that container then. One plugin serves all versions of Slurm: it links nothing of Slurm's, and takes the version of
// the program that loads it. This file has what Slurm calls, in the order in which it does.
#include "plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

ENTRY const char plugin_name[] = "slurmlet";
ENTRY const char plugin_type[] = "spank";
ENTRY const unsigned int spank_plugin_version = 1;
ENTRY unsigned int plugin_version;

char problem[4608];
static int refused; // a step that must not run, whether it wants a container of ours or not

// own_version takes the release of the program that loads the plugin: libslurm's 42 is 24.11, 43 is 25.05, and so on.
__attribute__((constructor)) static void own_version(void) {
	long (*api)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "slurm_api_version");
	long since = api ? (api() >> 16) - 42 : -1;
	if (since >= 0)
		plugin_version = (unsigned)(24 + (since + 1) / 2) << 16 | (since % 2 ? 5u : 11u) << 8;
}

int fail(const char *what) {
	snprintf(problem, sizeof problem, "%s: %s", what, errno == ENOTUNIQ ? "it is no directory, or another user's" : strerror(errno));
	return 0;
}

ENTRY int slurm_spank_init(spank_t sp, int ac, char **av) {
	if (read_arguments(ac, av))
		return -1;
	int context = spank_context();
	if (context == S_CTX_SLURMD)
		make_slurmd();
	if (context != S_CTX_LOCAL && context != S_CTX_REMOTE && context != S_CTX_ALLOCATOR)
		return 0;
	return register_options(sp);
}

ENTRY int slurm_spank_init_post_opt(spank_t sp, int ac, char **av) {
	(void)ac, (void)av;
	int context = spank_context();
	if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR)
		return check_submission();
	if (context != S_CTX_REMOTE)
		return 0;
	uint32_t step = 0;
	spank_get_item(sp, S_JOB_STEPID, &step);
	read_variables(sp);
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

ENTRY int slurm_spank_user_init(spank_t sp, int ac, char **av) {
	(void)sp, (void)ac, (void)av;
	return wanted ? share_container() : 0;
}

// In a task that is root still: Slurm changes to the task's directory afterwards, and becomes the user.
ENTRY int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av) {
	(void)sp, (void)ac, (void)av;
	if (wants_own() && !own_problem[0])
		enter_own(); // task_init tells what fails, where srun hears it
	return 0;
}

ENTRY int slurm_spank_task_init(spank_t sp, int ac, char **av) {
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
	if (!shared || !get_container(sp) || (saves && stay(sp)) || enter(sp))
		return -1;
	__atomic_add_fetch(&shared->entered, 1, __ATOMIC_SEQ_CST);
	if (saves)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return 0;
}

// The last task's end ends the holder, before Slurm kills what the step has left, and before the step is over: a next
// step may take the container's name.
ENTRY int slurm_spank_task_exit(spank_t sp, int ac, char **av) {
	(void)ac, (void)av;
	if (wanted)
		end_container(sp);
	return 0;
}

ENTRY int slurm_spank_exit(spank_t sp, int ac, char **av) {
	(void)ac, (void)av;
	uint32_t step = 0;
	if (wants_own() && spank_context() == S_CTX_REMOTE && !spank_get_item(sp, S_JOB_STEPID, &step) && step == EXTERN_STEP)
		end_own(sp);
	if (spank_context() == S_CTX_REMOTE)
		end_bundle(sp);
	return 0;
}
