//go:build e2e

// Package ends has all nodes of real clusters end at the same moment, and looks at what slurmctld
// is asked for that: its agent makes one command of many (internal/link/merge). Real daemons, on this
// machine's own kernel (e2e/testbed/native).
package ends

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	Case string
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

func TestEnds(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			native.Either(t, func(t *testing.T, g native.Given) { native.Play(t, native.Whole, settings{g, c.name}) })
		})
	}
}

func inside(s settings) (err error) {
	cluster, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: nodes, SlurmConf: slurmConf})
	if err != nil {
		return err
	}
	w := &world{Cluster: cluster}
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.Close())
	}()
	if err := w.begin(); err != nil {
		return err
	}
	for _, c := range cases {
		if c.name == s.Case {
			return c.play(w)
		}
	}
	return fmt.Errorf("there is no case %q", s.Case)
}
