//go:build e2e

package edits

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	Case  string
	Nodes int
}

// cases happen to a cluster of their own each.
var cases = []struct {
	name string
	// long: with SLURMLET_E2E_FULL=1 only.
	long bool
	// preflight is the agent's.
	preflight string
	happens   func(e *edits) error
}{
	{"slurmctld is stopped while the nodes take an edit", false, "parse", stoppedIn(spreading)},
	{"slurmctld is stopped before it reconfigures", true, "parse", stoppedFirst},
	{"slurmctld is stopped in the reconfigure", true, "parse", stoppedIn(reconfiguring)},
	{"slurmctld does not tell of nodes, and they take an edit", false, "parse", deafTo(good)},
	{"slurmctld does not tell of nodes, and none takes an edit", false, "off", deafTo(bad)},
	{"an edit would end jobs that name a node without a record", false, "parse", namesGoneNodes},
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

func TestEdits(t *testing.T) {
	full, nodes := os.Getenv("SLURMLET_E2E_FULL") == "1", 5
	if full {
		nodes = 100
	}
	for _, one := range cases {
		if one.long && !full {
			continue
		}
		t.Run(one.name, func(t *testing.T) {
			if !full {
				t.Parallel() // it waits most of the time; 100 nodes take the machine for themselves
			}
			native.Either(t, func(t *testing.T, g native.Given) { native.Play(t, 20*time.Minute, settings{g, one.name, nodes}) })
		})
	}
}

func inside(s settings) error {
	for _, one := range cases {
		if one.name != s.Case {
			continue
		}
		e, err := begin(s, one.preflight)
		if err != nil {
			return err
		}
		if err = one.happens(e); err != nil {
			e.explain()
		}
		return errors.Join(err, e.Close())
	}
	return fmt.Errorf("there is no case %q", s.Case)
}
