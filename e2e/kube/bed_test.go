//go:build e2e

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kubebed"
	"github.com/slurmlet/slurmlet/internal/kubebed/oci"
	"github.com/slurmlet/slurmlet/internal/sandbox/parts"
)

// limit is how long anything may take that a user would wait for, on a busy
// machine. Kubernetes gives up on a silent node after 50 s.
const limit = 4 * time.Minute

// TestKube runs everything, in order, on one bed. A case leaves it as it found it.
func TestKube(t *testing.T) {
	b := up(t)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *kubebed.Bed)
	}{
		{"a container at its limit is killed alone, and another is resized in place", limits},
		{"Slurm in pods", slurm},
		{"a kubelet that restarts", kubeletRestarts},
		{"a node whose cable is pulled out", cable},
		{"a node that loses power", power},
	} {
		if !t.Run(one.name, func(t *testing.T) { one.run(t, b) }) {
			return // the rest would fail for the same reason
		}
	}
}

// up makes a bed with the image, and checks afterwards, whatever happened, that
// nothing is left of it.
func up(t *testing.T) *kubebed.Bed {
	b, err := kubebed.Up(t.Context(), kubebed.Options{Name: fmt.Sprintf("e2e-%d", os.Getpid()), Binary: program("slurmlet-sandbox"), Images: []string{slurmImage(t)}, Progress: t.Logf})
	require.NoError(t, err)
	traces := b.Traces()
	t.Cleanup(func() {
		require.NoError(t, b.Down())
		require.Empty(t, traces.Left(), "left of Kubernetes")
	})
	return b
}

// slurmImage is Debian's Slurm with slurmlet in it.
func slurmImage(t *testing.T) string {
	root, err := parts.Root(t.Context(), "24.11", t.Logf)
	require.NoError(t, err)
	dir := t.TempDir()
	layer, err := os.Create(filepath.Join(dir, "layer"))
	require.NoError(t, err)
	defer layer.Close()
	require.NoError(t, oci.Layer(layer, map[string]string{"/": root, "/usr/local/bin/slurmlet": program("slurmlet")}))
	_, err = layer.Seek(0, 0)
	require.NoError(t, err)
	image, err := os.Create(filepath.Join(dir, "slurm.tar"))
	require.NoError(t, err)
	defer image.Close()
	path := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	require.NoError(t, oci.Image{Name: "registry.invalid/slurm:1", Env: path}.Write(image, layer))
	return image.Name()
}

// program is one of ours, in bin/.
func program(name string) string {
	dir, _ := os.Getwd()
	return filepath.Join(dir, "..", "..", "bin", name)
}

func apply(t *testing.T, b *kubebed.Bed, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	require.NoError(t, b.Apply(t.Context(), string(text)))
}

func remove(t *testing.T, b *kubebed.Bed, file string) {
	t.Helper()
	kubectl(t, b, "delete", "--wait", "-f", filepath.Join("testdata", file))
}

func kubectl(t *testing.T, b *kubebed.Bed, args ...string) string {
	t.Helper()
	out, err := b.Kubectl(t.Context(), args...)
	require.NoError(t, err)
	return strings.TrimSpace(out)
}

// field is one value of an object, by its JSON path.
func field(t *testing.T, b *kubebed.Bed, object, path string) string {
	t.Helper()
	return kubectl(t, b, "get", object, "-o", "jsonpath={"+path+"}")
}

// until waits for a condition; what it last saw is in the failure.
func until(t *testing.T, what string, met func() (bool, string)) {
	t.Helper()
	started := time.Now()
	for {
		ok, saw := met()
		if ok {
			t.Logf("%s: after %v", what, time.Since(started).Round(100*time.Millisecond))
			return
		}
		if time.Since(started) > limit {
			require.Fail(t, what+": not within "+limit.String(), saw)
		}
		select {
		case <-t.Context().Done():
			require.Fail(t, what+": the test was ended", saw)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
