//go:build e2e

// Package containers runs jobs in containers: real srun, sbatch and slurmd with spank_slurmlet.so and
// slurmlet-container, as a user without a privilege, on this machine's own kernel (e2e/testbed/native).
package containers

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// settings are what those inside the namespaces are told by those outside. Squashfuse is a directory with squashfuse,
// and Distribution the program of a registry.
type settings struct {
	Version, Root, Bin, Squashfuse, Distribution string
	Cost, Full                                   bool
	Steps                                        int
	StepsFor                                     time.Duration
	Only                                         string
}

// only has the cases played whose names contain it.
var only = flag.String("only", "", "play the cases alone whose names contain this")

func TestMain(m *testing.M) {
	native.Run(inside)
	os.Exit(m.Run())
}

func TestContainers(t *testing.T) {
	native.Either(t, func(t *testing.T, g native.Given) {
		squashfuse, err := parts.Squashfuse(t.Context(), t.Logf)
		require.NoError(t, err)
		require.NotEmpty(t, os.Getenv("DISTRIBUTION"), "DISTRIBUTION is not set: run make native")
		limit, full := native.Whole, os.Getenv("SLURMLET_E2E_FULL") != ""
		if full || *steps > 0 {
			limit = 90 * time.Minute
		}
		native.Play(t, limit, settings{g.Version, g.Root, filepath.Dir(g.Slurmlet), squashfuse, os.Getenv("DISTRIBUTION"), *cost, full, *steps, *stepsFor, *only})
	})
}

// TestPluginNeedsAnOldLibrary: docs/install/job-containers.md names the release of glibc, which images of a site's own have.
func TestPluginNeedsAnOldLibrary(t *testing.T) {
	plugin, err := elf.Open("../../../bin/spank_slurmlet.so")
	require.NoError(t, err)
	defer plugin.Close()
	needs, err := plugin.ImportedLibraries()
	require.NoError(t, err)
	assert.Equal(t, []string{"libc.so.6"}, needs)
	symbols, err := plugin.ImportedSymbols()
	require.NoError(t, err)
	for _, symbol := range symbols {
		assert.NotRegexp(t, "^strtou?l|scanf$", symbol.Name, "compiled with glibc 2.38, it is one of that release")
		if minor, is := strings.CutPrefix(symbol.Version, "GLIBC_2."); is {
			number, err := strconv.ParseFloat(minor, 64)
			require.NoError(t, err, symbol.Version)
			assert.LessOrEqual(t, number, 34.0, symbol.Name)
		}
	}
}

func inside(s settings) (err error) {
	conf := slurmConf
	if s.Steps > 0 || s.Full { // each scancel reads all jobs
		conf = strings.Replace(conf, "MinJobAge=3600", "MinJobAge=60", 1)
	}
	cluster, err := native.NewCluster(native.Options{
		Lower: s.Root, Slurmlet: filepath.Join(s.Bin, "slurmlet"), Nodes: 3, SlurmConf: conf,
	})
	if err != nil {
		return err
	}
	w := &world{Cluster: cluster, node: cluster.Nodes[0], second: cluster.Nodes[2], steps: s.Steps, stepsFor: s.StepsFor, only: s.Only}
	if w.steps == 0 && s.Full {
		w.steps = 10_000
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.begin(s); err != nil {
		return w.explained(err)
	}
	if err := w.startSite(s.Distribution); err != nil {
		return w.explained(err)
	}
	defer w.registry.close()
	w.environ = []string{"ENROOT_ALLOW_HTTP=y"} // the nodes have the registry on another machine
	if s.Cost {
		return w.measure(s.Version)
	}
	w.environ = nil
	err = w.playAll(s.Version, slices.Concat(cases, saveCases, slurmCases, importCases))
	w.environ = []string{"ENROOT_ALLOW_HTTP=y"}
	return errors.Join(err, w.playAll(s.Version, slices.Concat(pullCases, driverCases, stepsCases, sharedCases, asPyxis(), bundleCases)))
}

func (w *world) playAll(version string, all []testCase) (err error) {
	for _, c := range all {
		if !strings.Contains(c.name, w.only) {
			continue
		}
		began := time.Now()
		if failed := c.play(w); failed != nil {
			err = errors.Join(err, w.explained(fmt.Errorf("%s: %w", c.name, failed)))
			continue
		}
		fmt.Printf("Slurm %s: %s (%v)\n", version, c.name, time.Since(began).Round(time.Millisecond))
	}
	return err
}
