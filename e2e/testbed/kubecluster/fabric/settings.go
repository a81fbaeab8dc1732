// Package fabric is PID 1 of a bed: the network that joins its nodes, the
// control plane on it, and the machines of the nodes, to be switched on and off.
package fabric

import (
	"fmt"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// Settings are what a bed is told, in its directory, beside its keys.
type Settings struct {
	Name string `json:"name"`
	// Binary is the program that this is too, and Programs the directory with
	// Kubernetes'.
	Binary   string `json:"binary"`
	Programs string `json:"programs"`
	// Nodes are their names.
	Nodes []string `json:"nodes"`
	// Port is where the API is on the host's loopback.
	Port int `json:"port"`
}

// Write puts the settings into the bed's directory.
func (s Settings) Write(dir string) error { return remote.WriteSettings(dir, s) }

// Read reads what Write wrote.
func Read(dir string) (Settings, error) { return remote.ReadSettings[Settings](dir) }

// The bed's network. The control plane and CoreDNS are at Gateway.
const (
	Gateway  = "10.89.0.1"
	Services = "10.96.0.0/16"
	// Kubernetes is the address of the service of that name, the first there is.
	Kubernetes = "10.96.0.1"
	// MaxNodes is as many as there are addresses for.
	MaxNodes = 16
	apiPort  = 6443
)

// API is where the nodes and the control plane find it.
var API = fmt.Sprintf("https://%s:%d", Gateway, apiPort)

// Address is that of the i-th node, from 0.
func Address(i int) string { return fmt.Sprintf("10.89.0.%d", 11+i) }

// Pods is the pods' network on the i-th node.
func Pods(i int) string { return fmt.Sprintf("10.244.%d.0/24", 1+i) }

// The files and directories in a bed's directory.
const (
	Socket  = "socket"
	PKI     = "pki"
	Logs    = "logs"
	Volumes = "volumes"
	Disk    = "disk.ext4"
)

// Boot is the boot directory of a node.
func Boot(dir, node string) string { return filepath.Join(dir, "nodes", node) }
