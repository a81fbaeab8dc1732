//go:build e2e

// Package gone has pods go that cannot delete their node records themselves, in real clusters on this
// machine's own kernel (e2e/testbed/native). The controller's side is a real internal/link/peers server, which the test
// tells what Kubernetes would.
package gone

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	// Named: the cluster of TestNamed.
	Named bool
	// Rolling is for the cluster of TestRolling, nil for another one.
	Rolling *rolling
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

func TestGone(t *testing.T) {
	native.Either(t, func(t *testing.T, g native.Given) {
		t.Parallel() // it waits most of the time
		native.Play(t, native.Whole, settings{Given: g})
	})
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
