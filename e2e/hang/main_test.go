//go:build e2e

// Package hang holds nodes to their promise when slurmd cannot speak for them: it
// hangs, or is dead, and slurmctld may be away. Real daemons, on this machine's own
// kernel (e2e/native).
package hang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/native"
	"github.com/slurmlet/slurmlet/e2e/sandbox/parts"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct{ Case, Root, Slurmlet string }

func TestMain(m *testing.M) {
	if text := native.Inside(); text != "" {
		if err := inside(text); err != nil {
			fmt.Println("hang:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestHang(t *testing.T) {
	slurmlet, err := filepath.Abs("../../bin/slurmlet")
	require.NoError(t, err)
	for _, version := range parts.Versions() {
		root, err := parts.Root(t.Context(), version, t.Logf)
		require.NoError(t, err)
		for _, c := range all() {
			t.Run(version+"/"+c.name, func(t *testing.T) {
				t.Parallel() // it waits most of the time
				text, err := json.Marshal(settings{c.name, root, slurmlet})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				require.NoError(t, native.Enter(ctx, string(text)))
			})
		}
	}
}

func inside(text string) (err error) {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("cannot read the settings: %w", err)
	}
	if err := native.Furnish(); err != nil {
		return err
	}
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
