package slurm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	for _, version := range []string{"24.11", "26.05"} {
		t.Run(version, func(t *testing.T) {
			s := scontrol(t, recorded(t, "config-"+version+".txt"), "", "0")
			c, err := s.Config(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "show config\n", calls(t, s))
			assert.Equal(t, version+".5", c["SLURM_VERSION"])
			for key, want := range map[string]string{
				"TaskPlugin": "task/cgroup", "TaskPluginParam": "", "SelectTypeParameters": "CR_CORE_MEMORY", "TmpFS": "/tmp",
				"SlurmdSpoolDir": "/var/spool/slurmd", "ProctrackType": "proctrack/cgroup", "SchedulerParameters": "",
				"CgroupPlugin": "cgroup/v2", "ConstrainCores": "no", "ConstrainRAMSpace": "yes", "IgnoreSystemd": "no",
			} {
				value, there := c[key]
				assert.True(t, there, key)
				assert.Equal(t, want, value, key)
			}
			assert.True(t, c.Has("SelectTypeParameters", "CR_Core_Memory"))
		})
	}
}

func TestNoConfig(t *testing.T) {
	_, err := scontrol(t, "", "scontrol: error: Unable to contact slurm controller (connect failure)\n", "1").Config(t.Context())
	require.EqualError(t, err, "scontrol show config: Unable to contact slurm controller (connect failure)")
	_, err = scontrol(t, "nothing = of it\n", "", "0").Config(t.Context())
	require.ErrorContains(t, err, "there is no SLURM_VERSION in it")
}

func TestConfigLists(t *testing.T) {
	c := ParseConfig("TaskPlugin = task/affinity,task/cgroup\nPath=/a=b\n")
	assert.True(t, c.Has("TaskPlugin", "task/cgroup") && c.Is("Path", "/A=B"))
	assert.False(t, c.Has("TaskPlugin", "task") || c.Has("None", "x") || c.Is("None", "x"))
}

func FuzzConfig(f *testing.F) {
	f.Add("A = b\n\nSection:\nC=(null)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for key, value := range ParseConfig(text) {
			require.NotEmpty(t, key)
			require.NotContains(t, value, "\n")
		}
	})
}
