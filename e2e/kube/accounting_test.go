//go:build e2e

package kube

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/oci"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

const (
	databaseImage = "registry.invalid/mariadb:1"
	// plainImage is a Debian with Slurm's packages, and without slurmlet; its tag is Slurm's version.
	plainImage = "registry.invalid/debian-with-slurm:"
)

// accounting: the chart's own MariaDB, slurmdbd and slurmrestd, in a new release
// of the same name. slurmctld has its state of before, so that it does not wait for
// slurmdbd, which takes longer to start and has never heard of the cluster.
func accounting(values string) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		c.install(t, "-f", values)
		until(t, "slurmdbd knows the cluster", func() (bool, string) {
			saw := c.ask(t, "sacctmgr -n -P show cluster format=Cluster")
			return saw == release, saw
		})
	}
}

// newPassword: MariaDB and slurmdbd get another one.
func newPassword(t *testing.T, c *cluster) {
	c.accounts(t)
	c.upgrade(t, "--set-literal", "accounting.database.password=it's #1, \\so it is")
	c.kubectl(t, "rollout", "status", "statefulset/slurm-mariadb", "--timeout", limit.String())
	c.accounts(t)
}

// accounts runs a job that sacct tells of.
func (c *cluster) accounts(t *testing.T) {
	t.Helper()
	j := c.submit(t, "true")
	until(t, "sacct has it", func() (bool, string) {
		saw := c.ask(t, "sacct -n -P -X -o JobID,State -j "+j.id)
		return saw == j.id+"|COMPLETED", saw
	})
}

// writeRootImage makes an archive of Debian with a version of Slurm and MariaDB, as the sandbox has it.
func writeRootImage(t *testing.T, version, name string) string {
	root, err := parts.Root(t.Context(), version, t.Logf)
	require.NoError(t, err)
	dir := t.TempDir()
	layer, err := os.Create(filepath.Join(dir, "layer"))
	require.NoError(t, err)
	defer layer.Close()
	require.NoError(t, oci.Layer(layer, map[string]string{"/": root}))
	_, err = layer.Seek(0, 0)
	require.NoError(t, err)
	image, err := os.Create(filepath.Join(dir, "image.tar"))
	require.NoError(t, err)
	defer image.Close()
	path := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	require.NoError(t, oci.Image{Name: name, Env: path}.Write(image, layer))
	return image.Name()
}
