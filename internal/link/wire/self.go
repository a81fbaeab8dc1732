package wire

import (
	"strings"
	"time"
)

// Self is what Kubernetes knows of a pod and of its machine.
type Self struct {
	Machine string `json:"machine,omitempty"`
	// Labels are those of the machine's that the controller is set to pass on.
	Labels map[string]string `json:"labels,omitempty"`
	// Features, Topology and Weight are what the settings make of the labels, in Slurm's words.
	Features []string `json:"features,omitempty"`
	Topology string   `json:"topology,omitempty"`
	Weight   string   `json:"weight,omitempty"`
	// Drain is why the node must not take jobs: cordoned, or a taint or condition that a setting names. It is
	// a DrainReason.
	Drain string `json:"drain,omitempty"`
	// Deadline is when the kubelet kills the pod's containers by the API server's clock; zero while nobody
	// deletes it. GraceSeconds is what the deletion grants: the kubelet counts it from SIGTERM on, and so
	// does the agent, because clocks differ and SIGTERM may come late.
	Deadline     time.Time `json:"deadline,omitzero"`
	GraceSeconds int64     `json:"graceSeconds,omitempty"`
}

const drainPrefix = "machine "

// DrainReason is why a machine must not take jobs. It names the machine, so that an agent on another one knows
// that the reason is not its machine's.
func DrainReason(machine, why string) string { return drainPrefix + machine + " " + why }

// DrainedMachine is the machine of a DrainReason; empty if the text is none.
func DrainedMachine(reason string) string {
	rest, is := strings.CutPrefix(reason, drainPrefix)
	machine, _, more := strings.Cut(rest, " ")
	if !is || !more {
		return ""
	}
	return machine
}
