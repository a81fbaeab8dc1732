package main

import (
	"maps"
	"testing"

	"github.com/slurmlet/slurmlet/agent"
)

// TestLimitsThatCannotBe: nothing is started, nothing registered, and one line tells the file, what is in it and what may be.
func TestLimitsThatCannotBe(t *testing.T) {
	for _, c := range []struct{ name, file, text, says string }{
		{
			"no quota", "cpu.max", "garbage\n",
			`/sys/fs/cgroup/cpu.max: cannot use "garbage": the quota is neither "max" nor a positive number of microseconds`,
		},
		{
			"no memory to speak of", "memory.max", "1048576\n",
			"/sys/fs/cgroup/memory.max: 1048576 bytes leave no memory for jobs: SLURMLET_RESERVE_MEMORY keeps 67108864 bytes for the agent and slurmd",
		},
		{"memory of no number", "memory.max", "1G\n", `/sys/fs/cgroup/memory.max: cannot use "1G": want "max" or a number of bytes`},
		{"CPUs that are offline", "cpuset.cpus", "8000-8001\n", `/sys/fs/cgroup/cpuset.cpus: cannot use "8000-8001": none of these CPUs is online; 0`},
		{"CPUs that are none", "cpuset.cpus.effective", "a-b\n", `/sys/fs/cgroup/cpuset.cpus.effective: cannot use "a-b": want CPU numbers from 0 to 8191`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"cgroup/cgroup.controllers": "cpuset cpu memory\n"}
			maps.Copy(files, map[string]string{"cgroup/" + c.file: c.text})
			play(t, given{role: "slurmd", files: files}, phase{"it ends at once", nil, []condition{
				exits(agent.ExitConfig), never("start"), never("show"), logged(entry{"level": "ERROR", "source": "slurmlet", "error": c.says}),
			}})
		})
	}
}
