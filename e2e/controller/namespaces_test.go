//go:build e2e

package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestNamespaces: clusters are in the named namespaces alone, with the Roles of these alone. One of them is gone, with
// its Role, and the others do not notice.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	b := &bed{T: t, whole: t, dir: t.TempDir()}
	b.startPlane()
	for _, namespace := range []string{home, "hpc", "lab"} {
		b.namespace(namespace)
	}
	b.install("--set", "namespaces={hpc},elastic.enabled=true")
	r := b.replica("SLURMLET_NAMESPACES=gone,hpc", "SLURMLET_ELASTIC=all")
	r.ready()
	b.pod(spec{"lab", "x-slurmctld-0", "x", "slurmctld", "", "", "", []string{"10.1.1.1"}})
	a := b.agent(b.pod(spec{"hpc", "s-slurmctld-0", "s", "slurmctld", "", "", "", []string{"10.1.0.1"}}))
	node := b.owned(spec{"hpc", "s-cpu-0", "s", "slurmd", "cpu", "", "", []string{"10.1.0.2"}}, "ReplicaSet", "s-cpu", "s", "")
	a.has("s-cpu-0", "10.1.0.2")
	a.reports(b, wire.NodeReport{Name: "s-cpu-0", State: wire.Idle})
	b.eventually(patience, "the pod is marked", func() bool { return condition(b.read(node), "slurmlet.dev/Idle") == "True Idle" })
	e := b.elastic("e")
	e.template(nil)
	e.want("e-[0-1]")
	e.has("e-[0-1]")
	_, err := b.kube.CoreV1().ConfigMaps("lab").Get(b.Context(), "slurmlet-ca", metav1.GetOptions{})
	assert.True(b, apierrors.IsNotFound(err), "a cluster elsewhere is none: %v", err)
	for line := range strings.Lines(r.log()) {
		assert.False(b, strings.Contains(line, "forbidden") && !strings.Contains(line, `in the namespace \"gone\"`), line)
	}
	_, err = b.kube.CoreV1().Pods("hpc").Get(b.Context(), "e-0", metav1.GetOptions{})
	require.NoError(b, err)
}
