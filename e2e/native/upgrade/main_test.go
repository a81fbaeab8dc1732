//go:build e2e

// Package upgrade starts a slurmctld of one version on what another one has saved, with jobs. Real daemons, on this
// machine's own kernel (e2e/testbed/native).
package upgrade

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside: root file systems of two versions.
type settings struct{ Older, Newer, Slurmlet string }

func TestMain(m *testing.M) { native.TestMain(m, inside) }

func TestUpgrade(t *testing.T) {
	before, after := native.For(t, older), native.For(t, newer)
	native.Play(t, native.Whole, settings{Older: before.Root, Newer: after.Root, Slurmlet: after.Slurmlet})
}

func inside(s settings) error {
	c, err := native.NewCluster(native.Options{Lower: s.Older, Slurmlet: s.Slurmlet, Nodes: 1, SlurmConf: slurmConf})
	if err != nil {
		return err
	}
	w := &world{Cluster: c, roots: map[string]string{older: c.Root}}
	if err = w.layNewer(s.Newer); err == nil {
		err = w.play()
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, strings.Join(w.said(), "\n"))
	}
	return errors.Join(err, native.KillAll())
}
