package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// asked counts the remote procedure calls that slurmctld has had, by type.
type asked map[string]int

// each is the counts for one of so many nodes, without what few of them have asked.
func (a asked) each(nodes int) string {
	var text []string
	for _, rpc := range slices.Sorted(maps.Keys(a)) {
		if count := float64(a[rpc]) / float64(nodes); rpc != "REQUEST_PING" && count >= 0.05 {
			text = append(text, fmt.Sprintf("%s %.1f", rpc, count))
		}
	}
	return strings.Join(text, ", ")
}

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
