package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// call is one type of remote procedure call: how many slurmctld has had, and how long it took.
type call struct {
	count int
	took  time.Duration
}

// asked are the remote procedure calls that slurmctld has had, by type; ownCalls are those of
// the bench, which are among the others.
type asked map[string]call

const ownCalls = "the bench's"

func (a asked) add(other asked) {
	for name, c := range other {
		a[name] = call{a[name].count + c.count, a[name].took + c.took}
	}
}

// total is how many there were, others how many are not the bench's.
func (a asked) total() (n int) {
	for name, c := range a {
		if name != ownCalls {
			n += c.count
		}
	}
	return n
}

func (a asked) others() int { return a.total() - a[ownCalls].count }

// types are in the order of the time that they took.
func (a asked) types() []string {
	return slices.SortedFunc(maps.Keys(a), func(x, y string) int {
		return cmp.Or(cmp.Compare(a[y].took, a[x].took), cmp.Compare(x, y))
	})
}

func (t *trial) resetCounts() error {
	if out, err := t.Command("/usr/bin/sdiag", "--reset").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot reset slurmctld's counts: %w: %s", err, out)
	}
	return nil
}

// nobody is the user that the bench asks as: slurmctld counts its questions by user too.
const nobody = 65534

// askAsUser runs a command of Slurm's as a user of the cluster.
func askAsUser(c *native.Cluster, path string, args ...string) ([]byte, error) {
	cmd := c.Command(path, args...)
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	return cmd.Output()
}

// askSdiag reads what sdiag says of slurmctld.
func (t *trial) askSdiag(answer any) error {
	out, err := askAsUser(t.Cluster, "/usr/bin/sdiag", "--json")
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		return fmt.Errorf("cannot ask sdiag: %w", err)
	}
	return nil
}

func (t *trial) counts() (asked, error) {
	type counted struct {
		Type  string      `json:"message_type"`
		ID    json.Number `json:"user_id"`
		Count int         `json:"count"`
		Total int64       `json:"total_time"` // in microseconds
	}
	var answer struct {
		Statistics struct {
			ByType []counted `json:"rpcs_by_message_type"`
			ByUser []counted `json:"rpcs_by_user"`
		} `json:"statistics"`
	}
	if err := t.askSdiag(&answer); err != nil {
		return nil, err
	}
	a := asked{}
	for _, c := range answer.Statistics.ByType {
		a.add(asked{c.Type: {c.Count, time.Duration(c.Total) * time.Microsecond}})
	}
	for _, c := range answer.Statistics.ByUser {
		if c.ID.String() == strconv.Itoa(nobody) {
			a.add(asked{ownCalls: {c.Count, time.Duration(c.Total) * time.Microsecond}})
		}
	}
	return a, nil
}

// time is what all of them took, without the bench's.
func (a asked) time() (sum time.Duration) {
	for name, c := range a {
		if name == ownCalls {
			sum -= c.took
		} else {
			sum += c.took
		}
	}
	return sum
}
