// Package server is what runs inside a sandbox: it makes the machine that pods
// need, natively or in a User-Mode-Linux guest, and serves commands about them.
package server

import "github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"

// Settings are what a server is told by the launcher, in the boot directory,
// beside its keys.
type Settings struct {
	Name string `json:"name"`
	// Guest: this is a machine of its own and the host's files come by hostfs.
	Guest bool `json:"guest"`
	// NoLimits: no controller is asked for, and pods' limits are left out.
	NoLimits bool `json:"noLimits,omitempty"`
	// Slurm is the version in Root, the host's directory with a Debian that has runc.
	Slurm string `json:"slurm"`
	Root  string `json:"root"`
	// Cgroup is the sandbox's path below the cgroup2 mount point.
	Cgroup string `json:"cgroup"`
	// Agent is slurmlet on the host, for who makes pods later.
	Agent string `json:"agent"`
	// Socket is where to listen natively.
	Socket string `json:"socket,omitempty"`
	// Kernel, CPUs and Memory (MiB) are the guest's, for the launcher.
	Kernel string `json:"kernel,omitempty"`
	CPUs   int    `json:"cpus,omitempty"`
	Memory int    `json:"memory,omitempty"`
}

// The two ends of the link between a guest and its launcher.
const (
	GuestAddress = "10.87.0.2"
	HostAddress  = "10.87.0.1"
	LinkPrefix   = 30
	Port         = 22
)

// Write puts the settings into the boot directory.
func (s Settings) Write(boot string) error { return remote.WriteSettings(boot, s) }

// ReadSettings reads what Write wrote.
func ReadSettings(boot string) (Settings, error) { return remote.ReadSettings[Settings](boot) }
