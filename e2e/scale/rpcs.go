package main

import "fmt"

// asked counts the remote procedure calls that slurmctld has had, by type.
type asked map[string]int

func (t *trial) resetCounts() error {
	if out, err := t.Command("/usr/bin/sdiag", "--reset").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot reset slurmctld's counts: %w: %s", err, out)
	}
	return nil
}

func (t *trial) counts() (asked, error) {
	var answer struct {
		Statistics struct {
			RPCs []struct {
				Type  string `json:"message_type"`
				Count int    `json:"count"`
			} `json:"rpcs_by_message_type"`
		} `json:"statistics"`
	}
	if err := t.Ask(&answer, "/usr/bin/sdiag"); err != nil {
		return nil, err
	}
	a := asked{}
	for _, rpc := range answer.Statistics.RPCs {
		a[rpc.Type] += rpc.Count
	}
	return a, nil
}
