package podsize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// cluster is a real slurmctld's answer, with some values changed.
func cluster(t *testing.T, version string, changes ...string) slurm.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "slurm", "testdata", "config-"+version+".txt"))
	require.NoError(t, err)
	c := slurm.ParseConfig(string(text))
	for _, change := range changes {
		key, value, _ := strings.Cut(change, "=")
		c[key] = value
	}
	return c
}

// without is a cluster's configuration without cgroups, and what is changed in it besides.
func without(changes ...string) []string {
	return append(changes, "CgroupPlugin=disabled", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/linux")
}

// plain is a machine with four cores, holed one whose CPU 1 is offline.
var (
	plain = cgroup.Topology{Packages: [][]cgroup.Core{{{0}, {1}, {2}, {3}}}}
	holed = cgroup.Topology{Packages: [][]cgroup.Core{{{0}, {2}, {3}}}}
)

// given is a pod with a quota (0: none) and a cpuset ("": none) on a machine of 4 GiB.
func given(t *testing.T, online string, machine cgroup.Topology, quota float64, own string) nodesize.Resources {
	t.Helper()
	cpus := func(text string) cgroup.Set {
		set, err := cgroup.ParseSet(text)
		require.NoError(t, err)
		return set
	}
	r := nodesize.Resources{Online: cpus(online), MemTotal: 4 << 30, CPUTopology: machine}
	if quota > 0 {
		r.Quota = cgroup.Bound[float64]{Value: quota, Source: "cpu.max"}
	}
	if own != "" {
		r.CPUSet = cgroup.Bound[cgroup.Set]{Value: cpus(own), Source: "cpuset.cpus.effective"}
	}
	return r
}

// podOf has a Slurm with a cgroup subtree of these controllers, and the default directories.
func podOf(s nodesize.Size, limits nodesize.Resources, controllers ...string) Pod {
	return Pod{
		Size: s, Resources: limits, Controllers: controllers, MayBind: true,
		SpoolDir: "/var/spool/slurmd", TmpDir: "/tmp", GresConf: "/run/slurmlet/gres.conf",
	}
}

// all are the controllers that Slurm uses.
var all = []string{"cpuset", "cpu", "memory"}

func TestMismatches(t *testing.T) {
	quota := given(t, "0-3", plain, 1.5, "")
	pinned := given(t, "0-3", plain, 0, "1-2")
	shared := given(t, "0-3", plain, 1, "1-2")
	unnamed := given(t, "0,2-3", holed, 0, "3")
	free := given(t, "0-3", plain, 0, "")
	limited, swapping := quota, quota
	limited.Memory = cgroup.Bound[int64]{Value: 512 * mib, Source: "memory.max"}
	swapping.Swap = cgroup.Bound[int64]{Value: 64 * mib, Source: "memory.swap.max"}

	for name, c := range map[string]struct {
		pod         nodesize.Resources
		controllers []string
		changes     []string
		want        []string // settings and the beginning of what would fit
	}{
		"a quota, no binding": {quota, all, nil, nil},
		"a quota and affinity": {
			quota, all,
			[]string{"TaskPlugin=task/cgroup,task/affinity"},
			[]string{"TaskPlugin=task/cgroup,task/affinity: want task/cgroup without task/affinity (slurm.conf): the pod has a quota and no CPUs of its own"},
		},
		"a quota and cpusets": {quota, all, []string{"ConstrainCores=yes"}, []string{"ConstrainCores=yes: want no (cgroup.conf)"}},
		"pinned, no binding":  {pinned, all, nil, []string{"ConstrainCores=no: want yes (cgroup.conf): the pod has CPUs of its own"}},
		"pinned, no task/cgroup": {
			pinned, all,
			[]string{"TaskPlugin=task/affinity", "ConstrainCores=yes"},
			[]string{"TaskPlugin=task/affinity: want task/cgroup (slurm.conf), with ConstrainCores=yes"},
		},
		"pinned, and bound": {pinned, all, []string{"TaskPlugin=task/cgroup,task/affinity", "ConstrainCores=yes"}, nil},
		"a quota in a cpuset that others may share": {
			shared, all,
			[]string{"TaskPlugin=task/affinity,task/cgroup", "ConstrainCores=yes"},
			[]string{"TaskPlugin=task/affinity,task/cgroup: want task/cgroup without", "ConstrainCores=yes: want no"},
		},
		"CPUs without numbers": {
			unnamed, all,
			[]string{"ConstrainCores=yes"},
			[]string{"ConstrainCores=yes: want no (cgroup.conf): the kernel bounds the CPUs already: Slurm has no number for any of the pod's CPUs 3"},
		},
		"CPUs without numbers, not bound": {unnamed, all, nil, nil},
		"no limit, and binding":           {free, all, []string{"TaskPlugin=task/cgroup,task/affinity", "ConstrainCores=yes"}, nil},

		"the cpuset told twice": {
			quota, all,
			[]string{"TaskPluginParam=Cores,SlurmdSpecOverride"},
			[]string{"TaskPluginParam=Cores,SlurmdSpecOverride: want no SlurmdSpecOverride (slurm.conf)"},
		},
		"memory that is not allocated": {
			limited, all,
			[]string{"SelectTypeParameters=CR_CORE"},
			[]string{"SelectTypeParameters=CR_CORE: want CR_Core_Memory or another with Memory"},
		},
		"memory that is not bounded": {limited, all, []string{"ConstrainRAMSpace=no"}, []string{"ConstrainRAMSpace=no: want yes (cgroup.conf)"}},
		"nor by task/cgroup":         {limited, all, []string{"TaskPlugin=task/none"}, []string{"TaskPlugin=task/none: want task/cgroup (slurm.conf), with ConstrainRAMSpace=yes"}},
		"no limit to bound":          {quota, all, []string{"ConstrainRAMSpace=no"}, nil},
		"swap that is not bounded":   {swapping, all, []string{"ConstrainSwapSpace=no"}, []string{"ConstrainSwapSpace=no: want yes (cgroup.conf), with AllowedSwapSpace"}},
		"swap that is":               {swapping, all, nil, nil},
		"no swap":                    {quota, all, []string{"ConstrainSwapSpace=no"}, nil},
		"another way to select":      {quota, all, []string{"SelectType=select/linear"}, []string{"SelectType=select/linear: want select/cons_tres"}},
		"processes that get away":    {quota, all, []string{"ProctrackType=proctrack/linuxproc"}, []string{"ProctrackType=proctrack/linuxproc: want proctrack/cgroup"}},
		"accounting by polling":      {quota, all, []string{"JobAcctGatherType=jobacct_gather/linux"}, []string{"JobAcctGatherType=jobacct_gather/linux: want jobacct_gather/cgroup"}},
		"no accounting":              {quota, all, []string{"JobAcctGatherType="}, nil},
		"no use of the cgroup":       {quota, all, []string{"CgroupPlugin=disabled"}, []string{"CgroupPlugin=disabled: want cgroup/v2"}},
		"cgroup v2 by itself":        {quota, all, []string{"CgroupPlugin=autodetect"}, nil},
		"cgroups elsewhere":          {quota, all, []string{"CgroupMountpoint=/cgroup"}, []string{"CgroupMountpoint=/cgroup: want /sys/fs/cgroup"}},
		"PID 1 moved":                {quota, all, []string{"IgnoreSystemd=yes"}, []string{"IgnoreSystemd=yes: want no (cgroup.conf)"}},
		"PID 1 left where it stands": {quota, all, []string{"IgnoreSystemd=yes", "SLURM_VERSION=26.05.5"}, nil},
		"a controller that is not there": {
			quota,
			[]string{"cpu", "cpuset"},
			[]string{"ConstrainSwapSpace=no"},
			[]string{"ConstrainRAMSpace=yes: want no (cgroup.conf), or the controller for the container: the container's cgroup has no memory controller"},
		},
		"devices that nobody can hold jobs to": {
			quota, all,
			[]string{"ConstrainDevices=yes"},
			[]string{"ConstrainDevices=yes: want no (cgroup.conf), or CAP_SYS_ADMIN for the container (the chart: cgroup.access=capability)"},
		},
		"no cgroup at all, which has been told": {quota, nil, []string{"ProctrackType=proctrack/linuxproc", "JobAcctGatherType=jobacct_gather/linux"}, nil},
		"no cgroups for Slurm, and memory that nobody looks after": {
			limited, nil,
			without("JobAcctGatherParams=(null)"),
			[]string{
				"JobAcctGatherParams=(null): want OverMemoryKill (slurm.conf): nothing else ends a job that takes too much memory",
				"CgroupPlugin=disabled: want cgroup/v2 (cgroup.conf), SLURMLET_CGROUP=require, and a cgroup that slurmd can write",
			},
		},
		"no cgroups for Slurm, which looks after memory itself": {
			limited, nil,
			without("JobAcctGatherParams=OverMemoryKill,NoShared"),
			[]string{"CgroupPlugin=disabled: want cgroup/v2"},
		},
		"cgroups that slurmd makes itself": {limited, nil, nil, nil},
		"directories elsewhere": {
			quota, all,
			[]string{"TmpFS=/scratch", "SlurmdSpoolDir=/var/spool/slurm"},
			[]string{"TmpFS=/scratch: want SLURMLET_TMP_DIR=/scratch", "SlurmdSpoolDir=/var/spool/slurm: want SLURMLET_SPOOL_DIR=/var/spool/slurm"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := nodesize.NewSize(c.pod, 0)
			require.NoError(t, err)
			have := Mismatches(podOf(s, c.pod, c.controllers...), cluster(t, "24.11", c.changes...))
			require.Len(t, have, len(c.want), "%v", have)
			for i, want := range c.want {
				assert.True(t, strings.HasPrefix(have[i].String(), want), have[i])
			}
		})
	}
}

// TestMismatchWithoutSysNice: a container has CAP_SYS_NICE only when its pod asks for it.
func TestMismatchWithoutSysNice(t *testing.T) {
	pinned := given(t, "0-3", plain, 0, "1-2")
	s, err := nodesize.NewSize(pinned, 0)
	require.NoError(t, err)
	pod := podOf(s, pinned, all...)
	pod.MayBind = false
	assert.Empty(t, Mismatches(pod, cluster(t, "26.05", "ConstrainCores=yes")))
	have := Mismatches(pod, cluster(t, "26.05", "ConstrainCores=yes", "TaskPlugin=task/cgroup,task/affinity"))
	require.Len(t, have, 1)
	assert.Contains(t, have[0].Instead, "SYS_NICE")
}

// TestMismatchesOfTheSandbox: what the documents advise is well.
func TestMismatchesOfTheSandbox(t *testing.T) {
	for _, version := range []string{"24.11", "26.05"} {
		r := given(t, "0-3", plain, 1, "")
		s, err := nodesize.NewSize(r, 0)
		require.NoError(t, err)
		assert.Empty(t, Mismatches(podOf(s, r, all...), cluster(t, version)))
	}
}
