package agent

import (
	"encoding/json"
	"io"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// PublicStatus is what everybody may know who reaches the agent's port: GET /status there.
// The whole status is on the agent's socket: "slurmlet status".
type PublicStatus struct {
	Role    Role             `json:"role"`
	State   supervisor.Phase `json:"state"`
	Since   time.Time        `json:"since"`
	Ready   bool             `json:"ready"`
	Started bool             `json:"started"`
	Version string           `json:"version"`
	// PublicConf is slurmctld's configuration, nil for other roles.
	PublicConf *PublicConf `json:"conf,omitempty"`
}

// PublicConf has the hashes of the set in place and of the last that was taken.
type PublicConf struct {
	Live string `json:"live"`
	Good string `json:"good,omitempty"`
}

func (s Status) public() PublicStatus {
	p := PublicStatus{Role: s.Role, State: s.State, Since: s.Since, Ready: s.Serving(), Started: s.Started, Version: s.Version}
	if s.Conf != nil {
		p.PublicConf = &PublicConf{s.Conf.Live, s.Conf.Good}
	}
	return p
}

func (s PublicStatus) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}
