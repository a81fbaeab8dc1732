// Package node is PID 1 of a Kubernetes node: it makes the machine, starts
// containerd, the kubelet and kube-proxy in it, and serves commands.
package node

import "github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"

// Settings are what a node is told, in its boot directory, beside its keys.
type Settings struct {
	Name string `json:"name"`
	// Guest: this is a machine of its own and the host's files come by hostfs.
	Guest bool `json:"guest"`
	// Debian is the host's directory that the node's root is made of, and Programs
	// the one with Kubernetes' programs.
	Debian   string `json:"debian"`
	Programs string `json:"programs"`
	// Logs and Volumes are directories of the host's that the node writes to.
	Logs    string `json:"logs"`
	Volumes string `json:"volumes"`
	// Address is the node's, and Gateway that of the bed, where the control plane
	// and CoreDNS are.
	Address string `json:"address"`
	Gateway string `json:"gateway"`
	// Pods is the node's part of the pods' network.
	Pods string `json:"pods"`
	// The files that the kubelet and kube-proxy know the API by.
	Kubelet   []byte `json:"kubelet"`
	Proxy     []byte `json:"proxy"`
	Authority []byte `json:"authority"`
	// Kernel, Disk, CPUs and Memory (MiB) are the guest's, for its launcher.
	Kernel string `json:"kernel,omitempty"`
	Disk   string `json:"disk,omitempty"`
	CPUs   int    `json:"cpus,omitempty"`
	Memory int    `json:"memory,omitempty"`
}

// Write puts the settings into the boot directory.
func (s Settings) Write(boot string) error { return remote.WriteSettings(boot, s) }

// Read reads what Write wrote.
func Read(boot string) (Settings, error) { return remote.ReadSettings[Settings](boot) }
