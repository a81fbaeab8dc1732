package podnames

import (
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/peers"
)

// Status is what the agent knows of its cluster's pods.
type Status struct {
	peers.ClientStatus
	// Names are those in /etc/hosts. Taken are peers' names that other lines of it have with
	// another address.
	Names int      `json:"names"`
	Taken []string `json:"taken,omitempty"`
	// Foreign are peers' names that slurm.conf gives to other hosts: DNS is asked for them.
	Foreign []string `json:"foreign,omitempty"`
	// HostsFault is why names are missing in /etc/hosts.
	HostsFault string `json:"hosts_fault,omitempty"`
	// Machine is the Kubernetes node, Drain why it wants the node drained, and Deadline when the
	// kubelet kills the pod.
	Machine  string    `json:"machine,omitempty"`
	Drain    string    `json:"drain,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// Status is nil where there is no controller to follow.
func (n *Names) Status() *Status {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return &Status{
		ClientStatus: n.client.Status(), Names: n.hosts.Len(), Taken: n.taken, Foreign: n.foreign, HostsFault: n.fault,
		Machine: n.self.Machine, Drain: n.self.Drain, Deadline: n.self.Deadline,
	}
}

// Rows writes the status for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	text := "connected"
	if !s.Connected {
		text = "no controller"
	}
	text += " since " + s.Since.Format(time.RFC3339)
	if s.Updated.IsZero() {
		text += ", no table yet"
	} else {
		text += fmt.Sprintf(", a table of %d at %s, %d names in /etc/hosts", s.Peers, s.Updated.Format(time.RFC3339), s.Names)
	}
	row("Peers", "%s", text)
	if !s.Stale.IsZero() {
		row("Fault", "the controller has heard nothing of Kubernetes since %s", s.Stale.Format(time.RFC3339))
	}
	if s.Fault != "" {
		row("Fault", "%s", s.Fault)
	}
	if s.HostsFault != "" {
		row("Fault", "%s", s.HostsFault)
	}
	if len(s.Taken) > 0 {
		row("Note", "other lines of /etc/hosts have names of peers, with other addresses: %s", strings.Join(s.Taken, ", "))
	}
	if len(s.Foreign) > 0 {
		row("Note", "pods have names of slurm.conf's hosts, and DNS is asked for these: %s", strings.Join(s.Foreign, ", "))
	}
	if s.Machine != "" {
		row("Kubernetes node", "%s", s.Machine)
	}
	if s.Drain != "" {
		row("Drain", "%s", s.Drain)
	}
}
