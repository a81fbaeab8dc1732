//go:build e2e

// Package gone has pods go that cannot delete their node records themselves, in real clusters on this
// machine's own kernel (e2e/testbed/native). The controller's side is a real internal/link/peers server, which the test
// tells what Kubernetes would.
package gone

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
type settings struct {
	Root, Slurmlet string
	// Named: the cluster of TestNamed.
	Named bool
	// Rolling is for the cluster of TestRolling, nil for another one.
	Rolling *rolling
}

func TestMain(m *testing.M) {
	native.Run(inside)
	os.Exit(m.Run())
}

func TestGone(t *testing.T) {
	slurmlet, err := native.FindSlurmlet("../../../bin/slurmlet")
	require.NoError(t, err)
	for _, version := range parts.Versions() {
		root, err := parts.Root(t.Context(), version, t.Logf)
		require.NoError(t, err)
		t.Run(version, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			require.NoError(t, native.Enter(ctx, settings{Root: root, Slurmlet: slurmlet}))
		})
	}
}

func inside(s settings) (err error) {
	if s.Named {
		return playNamed(s)
	}
	if s.Rolling != nil {
		return playRolling(s)
	}
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.Close())
	}()
	for _, c := range cases {
		began := time.Now()
		if err := c.play(w); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%s: %.2f s\n", c.name, time.Since(began).Seconds())
	}
	return nil
}
