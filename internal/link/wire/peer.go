package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/slurmlet/slurmlet/internal/kit/hostname"
	"github.com/slurmlet/slurmlet/internal/kit/role"
)

// Peer is a pod of the cluster.
type Peer struct {
	// Name is the pod's host name: a slurmd's is its NodeName.
	Name      string       `json:"name"`
	Role      role.Role    `json:"role"`
	NodeSet   string       `json:"nodeSet,omitempty"`
	UID       string       `json:"uid"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Machine is the Kubernetes node that the pod runs on.
	Machine string `json:"machine,omitempty"`
	// Ending: the pod is being deleted.
	Ending bool `json:"ending,omitempty"`
}

// Gone is a peer that is no more.
type Gone struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Lost: Kubernetes knows that the machine is gone: nothing of the pod runs any more.
	Lost bool `json:"lost,omitempty"`
}

// mostAddresses bounds the addresses of a pod. Kubernetes gives one for each family.
const mostAddresses = 8

// Check refuses what must not come into anybody's /etc/hosts.
func (p Peer) Check() error {
	switch {
	case !hostname.ValidPod(p.Name):
		return fmt.Errorf(
			"cannot use %.80q as the name of a peer: want letters, digits, '-' and '_', and at most %d of them", p.Name, hostname.Longest)
	case p.UID == "":
		return errors.New("cannot use the peer " + p.Name + ": it has no UID")
	case len(p.Addresses) > mostAddresses:
		return fmt.Errorf("cannot use the peer %s: it has %d addresses, and %d are allowed", p.Name, len(p.Addresses), mostAddresses)
	case slices.ContainsFunc(p.Addresses, func(a netip.Addr) bool { return !hostname.Reachable(a) }):
		return fmt.Errorf("cannot use the peer %s: one of its addresses %v is no address of a pod", p.Name, p.Addresses)
	}
	return nil
}
