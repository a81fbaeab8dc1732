//go:build e2e

// Package hang holds nodes to their promise when slurmd cannot speak for them: it
// hangs, or is dead, and slurmctld may be away. Real daemons, on this machine's own
// kernel (e2e/testbed/native).
package hang

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct{ Case, Root, Slurmlet string }

func TestMain(m *testing.M) {
	native.Run(inside)
	os.Exit(m.Run())
}

func TestHang(t *testing.T) {
	slurmlet, err := native.FindSlurmlet("../../../bin/slurmlet")
	require.NoError(t, err)
	for _, version := range parts.Versions() {
		root, err := parts.Root(t.Context(), version, t.Logf)
		require.NoError(t, err)
		for _, c := range all() {
			t.Run(version+"/"+c.name, func(t *testing.T) {
				t.Parallel() // it waits most of the time
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+crowdTime())
				defer cancel()
				require.NoError(t, native.Enter(ctx, settings{c.name, root, slurmlet}))
			})
		}
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
