//go:build e2e

package questions

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	// Records is how many nodes there are besides those with a slurmd.
	Records int
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

// TestQuestions: a node's agent lives from its start to its end among 300 other records.
func TestQuestions(t *testing.T) {
	native.Either(t, func(t *testing.T, g native.Given) {
		t.Parallel() // it waits most of the time
		native.Play(t, native.Whole, settings{g, 300})
	})
}

func inside(s settings) error {
	l, err := begin(s)
	if err != nil {
		return err
	}
	for _, act := range []struct {
		name string
		do   func() error
	}{
		{"the records are compared", l.compare},
		{"nodes start", l.start},
		// 24.11 asks the other records to register after an edit, through slurmds that cannot forward
		// it: a job's launch may wait for minutes then.
		{"slurmlet drain -wait of a node with a job on one of its CPUs", l.drainAndWait},
		{"a resize of such a node", l.resize},
		{"SIGTERM to such a node in a reservation", l.reserved},
		{"an edit", l.edit},
		{"SIGTERM to a drained node with a job on one of its CPUs", l.doubt},
		{"SIGTERM to an idle node, one whose job ends, and one whose job is requeued", l.end},
		{"a restart of slurmctld", l.restart},
	} {
		if err = act.do(); err != nil {
			err = fmt.Errorf("%s: %w", act.name, err)
			l.explain()
			break
		}
		fmt.Println("passed:", act.name)
	}
	return errors.Join(err, l.Close())
}
