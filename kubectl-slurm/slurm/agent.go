package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Agent is what "slurmlet status -o json" has that matters here. agent.Status is the whole.
type Agent struct {
	Role    string    `json:"role"`
	State   string    `json:"state"`
	Since   time.Time `json:"since"`
	Doing   string    `json:"doing,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Version string    `json:"version"`
	Started bool      `json:"started"`
	// Release is what is known against the daemon's Slurm, nil for nothing.
	Release *Release `json:"slurm,omitempty"`
	// Conf is nil for other roles than slurmctld.
	Conf      *Conf    `json:"conf,omitempty"`
	ConfFault string   `json:"conf_fault,omitempty"`
	LastError *Words   `json:"last_error,omitempty"`
	LastEnd   *Words   `json:"last_end,omitempty"`
	Nobodys   []string `json:"nobodys_jobs,omitempty"`
	Elastic   *Elastic `json:"elastic,omitempty"`
	Node      *struct {
		Fault   string `json:"fault,omitempty"`
		Refusal string `json:"refusal,omitempty"`
	} `json:"node,omitempty"`
}

// Release is a version of Slurm.
type Release struct {
	Version    string `json:"version"`
	Advisories []struct {
		Name string `json:"name"`
		What string `json:"what"`
	} `json:"advisories,omitempty"`
}

// Words are what a daemon has said.
type Words struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Conf is slurmctld's configuration.
type Conf struct {
	Sources []string `json:"sources,omitempty"`
	Live    string   `json:"live"`
	Good    string   `json:"good,omitempty"`
	Doing   string   `json:"doing,omitempty"`
	Refused *struct {
		Since time.Time `json:"since"`
		Why   []string  `json:"why"`
	} `json:"refused,omitempty"`
	Missed   []string `json:"missed,omitempty"`
	Faults   []string `json:"faults,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Elastic are the sets of nodes that Slurm starts and ends.
type Elastic struct {
	Fault string `json:"fault,omitempty"`
	Sets  []Set  `json:"sets"`
}

// Set is one of them.
type Set struct {
	Name          string    `json:"name"`
	Nodes         string    `json:"nodes,omitempty"`
	Wanted        int       `json:"wanted"`
	Up            int       `json:"up"`
	Starting      int       `json:"starting"`
	StartingNodes string    `json:"starting_nodes,omitempty"`
	Failed        int       `json:"failed"`
	FailedNodes   string    `json:"failed_nodes,omitempty"`
	Retry         time.Time `json:"retry,omitzero"`
	Failing       []struct {
		Nodes  string    `json:"nodes"`
		Reason string    `json:"reason"`
		Note   string    `json:"note,omitempty"`
		Since  time.Time `json:"since,omitzero"`
	} `json:"failing,omitempty"`
}

// AgentOf asks the agent of the pod in which the Asker runs its commands. The status of the command is that of the
// agent: it is not 0 while the pod is not Ready.
func AgentOf(ctx context.Context, a Asker) (*Agent, error) {
	out, err := a.Ask(ctx, "slurmlet", "status", "-o", "json")
	var refused *Refusal
	if errors.As(err, &refused) && refused.Status == tempFail {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	var s Agent
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return nil, errors.New("cannot read the answer of slurmlet status: " + err.Error())
	}
	return &s, nil
}

// tempFail is the status of "slurmlet status" while the agent is not Ready (EX_TEMPFAIL).
const tempFail = 75
