// Package node is PID 1 of a Kubernetes node: it makes the machine, starts
// containerd, the kubelet and kube-proxy in it, and serves commands.
package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

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

const settingsFile = "node.json"

// Write puts the settings into the boot directory.
func (s Settings) Write(boot string) error {
	data, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(boot, settingsFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write settings: %v", err)
	}
	return nil
}

// Read reads what Write wrote.
func Read(boot string) (Settings, error) {
	var s Settings
	data, err := os.ReadFile(filepath.Join(boot, settingsFile))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("cannot read settings: %v", err)
	}
	return s, nil
}
