//go:build e2e

// Package hang holds nodes to their promise when slurmd cannot speak for them: it
// hangs, or is dead, and slurmctld may be away. Real daemons, on this machine's own
// kernel (e2e/testbed/native).
package hang

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

func TestHang(t *testing.T) {
	for _, c := range all() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			native.Either(t, func(t *testing.T, g native.Given) {
				native.Play(t, native.Whole, settings{g, c.name})
			})
		})
	}
}

func inside(s settings) (err error) {
	cluster, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 1, SlurmConf: slurmConf})
	if err != nil {
		return err
	}
	c := &world{Cluster: cluster, node: cluster.Nodes[0]}
	defer func() {
		if err != nil {
			c.explain()
		}
		err = errors.Join(err, c.Close())
	}()
	for _, one := range all() {
		if one.name == s.Case {
			return c.play(one)
		}
	}
	return fmt.Errorf("no such case: %s", s.Case)
}
