//go:build e2e

// Package ends has all nodes of real clusters end at the same moment, and looks at what slurmctld
// is asked for that: its agent makes one command of many (internal/slurmctld/merge). Real daemons, on this
// machine's own kernel (e2e/testbed/native).
package ends

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

func TestEnds(t *testing.T) {
	slurmlet, err := native.FindSlurmlet("../../../bin/slurmlet")
	require.NoError(t, err)
	for _, version := range parts.Versions() {
		root, err := parts.Root(t.Context(), version, t.Logf)
		require.NoError(t, err)
		for _, c := range cases {
			t.Run(version+"/"+c.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				require.NoError(t, native.Enter(ctx, settings{c.name, root, slurmlet}))
			})
		}
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
