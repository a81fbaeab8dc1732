package podsize

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
)

func TestDevicesAreHeld(t *testing.T) {
	gpu := []devices.GPU{{Vendor: devices.NVIDIA, Files: []string{"/dev/nvidia0"}}}
	for name, c := range map[string]struct {
		gpus     []devices.GPU
		able     bool
		changes  []string
		want     string
		mismatch string
	}{
		"held":                       {gpu, true, []string{"ConstrainDevices=yes"}, "each job can open its own alone (ConstrainDevices=yes)", ""},
		"held without GPUs":          {nil, true, []string{"ConstrainDevices=yes"}, "each job can open its own alone (ConstrainDevices=yes)", ""},
		"not held":                   {gpu, true, []string{"ConstrainDevices=no"}, "each job can open all of the container's (ConstrainDevices=no)", "ConstrainDevices=no: want yes (cgroup.conf): each job can open the GPUs of all others"},
		"nobody can":                 {gpu, false, []string{"ConstrainDevices=no"}, "each job can open all of the container's (ConstrainDevices=no)", ""},
		"nobody can, and it is said": {gpu, false, []string{"ConstrainDevices=yes"}, "no job is held to its own, though cgroup.conf has ConstrainDevices=yes", "ConstrainDevices=yes: want no (cgroup.conf), or " + slurm.HoldDevices + ": " + notHeld("24.11.5")},
		"nobody does":                {gpu, true, without("ConstrainDevices=yes"), "no job is held to its own, though cgroup.conf has ConstrainDevices=yes", ""},
		"no GPUs":                    {nil, true, []string{"ConstrainDevices=no"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(nodesize.Size{CPUs: 1, RealMemory: 448}, nodesize.Resources{}, all...)
			pod.Gres.GPUs, pod.MayHoldDevices = c.gpus, c.able
			conf := cluster(t, "24.11", c.changes...)
			assert.Equal(t, c.want, Devices(pod, conf))
			f := comparison{Pod: pod, cluster: conf}
			f.checkDevices()
			said := ""
			for _, m := range f.found {
				said += m.String()
			}
			assert.Equal(t, c.mismatch, said)
		})
	}
	assert.Contains(t, notHeld("26.05.5"), "every launch fails")
}
