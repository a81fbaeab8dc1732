package podsize

import "github.com/slurmlet/slurmlet/internal/slurm"

// constrains: slurmstepd tries to hold jobs to their devices.
func (f *comparison) constrains() bool {
	return f.delegated() && f.task("cgroup") && f.cluster.Is("ConstrainDevices", "yes")
}

// checkDevices: who keeps a job from the GPUs of another one.
func (f *comparison) checkDevices() {
	f.note(f.constrains() && !f.MayHoldDevices, "ConstrainDevices", "no (cgroup.conf), or "+slurm.HoldDevices,
		notHeld(f.cluster["SLURM_VERSION"]))
	able := f.delegated() && f.task("cgroup") && f.MayHoldDevices
	f.note(able && len(f.Gres.GPUs) > 0 && !f.constrains(), "ConstrainDevices", "yes (cgroup.conf)",
		"each job can open the GPUs of all others")
}

// notHeld is what becomes of jobs where slurmstepd may load no eBPF program (tried on 24.11.5 and 26.05.5).
func notHeld(version string) string {
	if older(version, 26) {
		return "slurmstepd may load no eBPF program, and says so in the output of each job, which runs and can open all devices"
	}
	return "slurmstepd may load no eBPF program, and every launch fails"
}

// Devices says for people whether jobs are held to the devices that Slurm gives them; it is empty where there are no
// GPUs and nobody has asked for it.
func Devices(p Pod, cluster slurm.Config) string {
	f := comparison{Pod: p, cluster: cluster}
	switch {
	case f.constrains() && f.MayHoldDevices:
		return "each job can open its own alone (ConstrainDevices=yes)"
	case f.constrains() || f.cluster.Is("ConstrainDevices", "yes"):
		return "no job is held to its own, though cgroup.conf has ConstrainDevices=yes"
	case len(p.Gres.GPUs) > 0:
		return "each job can open all of the container's (ConstrainDevices=no)"
	}
	return ""
}
