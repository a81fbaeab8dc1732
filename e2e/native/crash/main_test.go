//go:build e2e

// Package crash kills slurmctld again and again while jobs are submitted, and holds that no id is given twice, and
// that each job which was acknowledged is known afterwards or reported. Real daemons, on this machine's own kernel
// (e2e/testbed/native).
package crash

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	Case string
	// Full: the long form of the case.
	Full bool
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

func TestCrash(t *testing.T) {
	full := os.Getenv("SLURMLET_E2E_FULL") != ""
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			native.Either(t, func(t *testing.T, g native.Given) { native.Play(t, native.Whole, settings{g, c.name, full}) })
		})
	}
}

func inside(s settings) (err error) {
	for _, one := range cases {
		if one.name != s.Case {
			continue
		}
		cluster, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 2, SlurmConf: slurmConf + one.conf})
		if err != nil {
			return err
		}
		w := &world{Cluster: cluster, full: s.Full}
		err = one.play(w)
		if err != nil {
			w.explain()
		}
		return errors.Join(err, w.Close())
	}
	return fmt.Errorf("no such case: %s", s.Case)
}
