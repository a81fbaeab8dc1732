package inject

import (
	corev1 "k8s.io/api/core/v1"
)

// role is what a container becomes.
type role struct {
	name string
	// root: the agent starts processes as their users.
	root bool
	// asks: the agent must know where slurmctld is.
	asks bool
	// keys: the agent takes the configuration from slurmctld, and needs nothing but the cluster's key.
	keys bool
	// converts: being started may mean to convert a database, which nothing may end. So only an agent that does not answer is
	// ended then, and the pod has hours to end.
	converts bool
	// grace is what takes the place of Kubernetes' 30 seconds, in seconds.
	grace        int64
	ports        []corev1.ContainerPort
	capabilities []corev1.Capability
}

// roles are those of the agent, as charts/slurm runs them. The test of both holds them together.
var roles = []role{
	{name: "slurmctld", grace: 60, ports: ports("slurmctld", 6817)},
	{
		name: "slurmd", root: true, asks: true, keys: true, grace: 86400, ports: ports("slurmd", 6818),
		capabilities: []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"},
	},
	{
		name: "login", root: true, asks: true, keys: true, grace: 600, ports: ports("ssh", 22),
		capabilities: []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID", "SYS_CHROOT", "NET_BIND_SERVICE", "AUDIT_WRITE"},
	},
	{name: "slurmdbd", converts: true, grace: 86400, ports: ports("slurmdbd", 6819)},
	{name: "slurmrestd", grace: 60, ports: ports("slurmrestd", 6820)},
}

func ports(name string, number int32) []corev1.ContainerPort {
	return []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}}
}

func roleNames() (names []string) {
	for _, r := range roles {
		names = append(names, r.name)
	}
	return names
}
