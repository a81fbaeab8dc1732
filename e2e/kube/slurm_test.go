//go:build e2e

package kube

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kubebed"
)

// slurm is the agent under a real kubelet: probes, projected volumes, names by
// cluster DNS, an unprivileged slurmd with a cgroup of its own.
func slurm(t *testing.T, b *kubebed.Bed) {
	key := filepath.Join(t.TempDir(), "slurm.key")
	secret := make([]byte, 1024)
	_, _ = rand.Read(secret) // never fails
	require.NoError(t, os.WriteFile(key, secret, 0o600))
	kubectl(t, b, "create", "secret", "generic", "slurm", "--from-file=slurm.key="+key)
	defer kubectl(t, b, "delete", "secret", "slurm")
	apply(t, b, "slurm.yaml")
	defer remove(t, b, "slurm.yaml")
	for _, set := range []string{"slurmctld", "slurmd"} {
		rollout(t, b, set)
	}
	t.Run("both nodes are of the pods' size", func(t *testing.T) {
		assert.Equal(t, "slurmd-0 1 192\nslurmd-1 1 192", ctl(t, b, "sinfo -h -N -o '%N %c %m'"))
	})
	t.Run("a job on both nodes", func(t *testing.T) {
		assert.Equal(t, "slurmd-0\nslurmd-1", ctl(t, b, "srun -N2 hostname | sort"))
	})
	t.Run("the kernel kills the job's step alone", func(t *testing.T) {
		before := restarts(t, b)
		out := ctl(t, b, `srun --mem=50 perl -e '$x = "a" x (100 << 20)' 2>&1 || true`)
		assert.Contains(t, out, "Out Of Memory")
		assert.Equal(t, before, restarts(t, b))
		assert.Equal(t, "slurmd-0", ctl(t, b, "srun -w slurmd-0 hostname"))
	})
	t.Run("the node record follows a resize in place", func(t *testing.T) {
		before := restarts(t, b)
		kubectl(t, b, "patch", "pod", "slurmd-1", "--subresource", "resize", "--patch",
			`{"spec":{"containers":[{"name":"slurmd","resources":{"requests":{"memory":"384Mi"},"limits":{"cpu":"2","memory":"384Mi"}}}]}}`)
		until(t, "slurmd-1 is registered anew", func() (bool, string) {
			saw := ctl(t, b, "sinfo -h -N -n slurmd-1 -o '%N %c %m %T'")
			return saw == "slurmd-1 2 320 idle", saw
		})
		assert.Equal(t, before, restarts(t, b))
	})
	t.Run("a deleted pod's job ends first", func(t *testing.T) {
		ctl(t, b, "sbatch -w slurmd-0 --output=/dev/null --wrap 'sleep 5'")
		until(t, "the job runs", func() (bool, string) { saw := ctl(t, b, "squeue -h -o %T"); return saw == "RUNNING", saw })
		kubectl(t, b, "delete", "pod", "slurmd-0")
		assert.Contains(t, ctl(t, b, "scontrol show job"), "JobState=COMPLETED")
		rollout(t, b, "slurmd")
	})
}

// restarts are how often the nodes' containers have been started again.
func restarts(t *testing.T, b *kubebed.Bed) string {
	t.Helper()
	return kubectl(t, b, "get", "pods", "-l", "app=slurmd", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}")
}

func rollout(t *testing.T, b *kubebed.Bed, set string) {
	t.Helper()
	_, err := b.Kubectl(t.Context(), "rollout", "status", "statefulset/"+set, "--timeout", limit.String())
	if err != nil {
		t.Log(kubectl(t, b, "get", "pods", "-o", "wide"))
		t.Log(kubectl(t, b, "describe", "pods"))
		t.Log(kubectl(t, b, "logs", "-l", "app="+set, "--tail", "30"))
	}
	require.NoError(t, err)
}

// ctl runs a script where slurmctld is.
func ctl(t *testing.T, b *kubebed.Bed, script string) string {
	t.Helper()
	return strings.TrimSpace(kubectl(t, b, "exec", "slurmctld-0", "--", "sh", "-c", script))
}
