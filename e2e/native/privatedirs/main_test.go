//go:build e2e

// Package privatedirs gives jobs directories and processes of their own: real srun, sbatch, slurmd and slurmstepd with
// spank_slurmlet.so and slurmlet-container, on this machine's own kernel (e2e/testbed/native). One node has what a pod
// with cgroup.access=capability has, one what an unprivileged pod has, and one too little.
package privatedirs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct{ Version, Root, Bin string }

func TestMain(m *testing.M) {
	native.Run(inside)
	os.Exit(m.Run())
}

func TestPrivateDirs(t *testing.T) {
	native.Newest(t, func(t *testing.T, g native.Given) {
		native.Play(t, native.Whole, settings{g.Version, g.Root, filepath.Dir(g.Slurmlet)})
	})
}

func inside(s settings) (err error) {
	cluster, err := native.NewCluster(native.Options{
		Lower: s.Root, Slurmlet: filepath.Join(s.Bin, "slurmlet"), Nodes: 3, SlurmConf: slurmConf,
	})
	if err != nil {
		return err
	}
	w := &world{Cluster: cluster, capable: cluster.Nodes[0], unprivileged: cluster.Nodes[1], poor: cluster.Nodes[2]}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.begin(s); err != nil {
		return w.explained(err)
	}
	for _, c := range cases {
		began := time.Now()
		if failed := c.play(w); failed != nil {
			failed = w.explained(fmt.Errorf("%s: %w", c.name, failed))
			fmt.Println(failed)
			err = errors.Join(err, failed)
			continue
		}
		fmt.Printf("Slurm %s: %s (%v)\n", s.Version, c.name, time.Since(began).Round(time.Millisecond))
	}
	return err
}
