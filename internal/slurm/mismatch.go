package slurm

import "fmt"

// Mismatch is a setting of the cluster that does not go with the way in which its pods are limited.
type Mismatch struct {
	// Setting is what there is, Instead what would fit and where it is set.
	Setting string `json:"setting"`
	Instead string `json:"instead"`
	Why     string `json:"why"`
}

func (m Mismatch) String() string { return fmt.Sprintf("%s: want %s: %s", m.Setting, m.Instead, m.Why) }

// HoldDevices is what cgroup.conf's ConstrainDevices needs of a container, and where it is set.
const HoldDevices = "CAP_SYS_ADMIN for the container (the chart: cgroup.access=capability), or CAP_BPF and CAP_NET_ADMIN"
