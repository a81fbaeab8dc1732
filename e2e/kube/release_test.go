//go:build e2e

package kube

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/registry"
)

// release is the chart's name and its release's, and so the beginning of all names.
const release = "slurm"

// set is the only node set.
const set = "statefulset/slurm-cpu"

// ofBed are the values of `make kube-up`, and those that the tests need besides.
func (c *cluster) ofBed() []string {
	return []string{"-f", "values.yaml", "-f", "testdata/values.yaml", "--set", "image.slurm=" + c.version}
}

// install is what a user of a release does: the chart comes out of a registry, by its digest.
func install(t *testing.T, c *cluster) {
	c.installFrom(t, c.push(t), "--plain-http")
	assert.Contains(t, c.runHelm(t, "test", release, "--timeout", limit.String()), "Succeeded")
	assert.Empty(t, c.kubectl(t, "get", "events", "--field-selector", "reason=NoRole", "-o", "name"), "each pod of the cluster has a role")
	assert.NotContains(t, c.kubectl(t, "logs", "slurm-slurmctld-0"), "DIRECTORY IS WORLD WRITABLE", "the volume of the state is")
}

func (c *cluster) install(t *testing.T, args ...string) {
	t.Helper()
	c.installFrom(t, chart, args...)
}

func (c *cluster) installFrom(t *testing.T, chart string, args ...string) {
	t.Helper()
	c.runHelm(t, slices.Concat([]string{"install", release, chart, "--wait", "--timeout", limit.String()}, c.ofBed(), args)...)
	c.bothIdle(t)
}

// push packs the chart and pushes it to a registry that lives as long as the test, and returns its reference.
func (c *cluster) push(t *testing.T) string {
	t.Helper()
	program := os.Getenv("DISTRIBUTION")
	require.NotEmpty(t, program, "DISTRIBUTION is not set: run make e2e-kube")
	there, err := registry.Start(t.Context(), program, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(there.Stop)
	dir := t.TempDir()
	c.runHelm(t, "package", chart, "--destination", dir)
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	require.NoError(t, err)
	require.Len(t, packed, 1)
	repository := "oci://" + there.Address + "/charts"
	_, digest, found := strings.Cut(c.runHelm(t, "push", packed[0], repository, "--plain-http"), "Digest: ")
	require.True(t, found)
	return repository + "/slurm@" + strings.TrimSpace(digest)
}

const chart = "../../charts/slurm"

// upgrade changes the release by further values.
func (c *cluster) upgrade(t *testing.T, args ...string) {
	t.Helper()
	c.runHelm(t, append([]string{"upgrade", release, chart, "--reuse-values"}, args...)...)
}

// uninstallInOrder has slurmctld let the nodes go first, as the chart's README says. Without that, a node waits for a
// slurmctld that is gone.
func uninstallInOrder(t *testing.T, c *cluster) {
	c.kubectl(t, "scale", set, "--replicas=0")
	c.kubectl(t, "wait", "--for=delete", "pod", "-l", "slurmlet.dev/role=slurmd", "--timeout", limit.String())
	uninstall(t, c)
}

// uninstall leaves the claims that the notes name, and nothing else.
func uninstall(t *testing.T, c *cluster) {
	notes := c.runHelm(t, "get", "notes", release)
	began := time.Now()
	c.runHelm(t, "uninstall", release, "--wait", "--timeout", limit.String())
	until(t, "the pods have ended", func() (bool, string) {
		saw := c.kubectl(t, "get", "pods", "-o", "name")
		return saw == "", saw
	})
	t.Logf("no pod is left %v after helm uninstall", time.Since(began).Round(time.Second))
	var named []string
	for line := range strings.Lines(notes) {
		if claim, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(claim, "state-") {
			named = append(named, "persistentvolumeclaim/"+claim)
		}
	}
	assert.NotEmpty(t, named)
	assert.ElementsMatch(t, named, c.objects(t))
}

// objects are all in the namespace but what Kubernetes itself and slurmlet's controller have in each.
func (c *cluster) objects(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(c.kubectl(t, "api-resources", "--verbs=list", "--namespaced", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, "events") || kind == "endpoints" })
	all := strings.Fields(c.kubectl(t, "get", strings.Join(kinds, ","), "-o", "name"))
	return slices.DeleteFunc(all, func(name string) bool {
		const ofController = ".rbac.authorization.k8s.io/slurmlet:slurmlet" // its right to read the ConfigMap
		return slices.Contains([]string{
			"configmap/kube-root-ca.crt", "configmap/slurmlet-ca", "serviceaccount/default", "service/kubernetes", "endpointslice.discovery.k8s.io/kubernetes",
			"role" + ofController, "rolebinding" + ofController,
		}, name)
	})
}

// dryRun has the API server judge all that the values files render, as admission
// would: those for kinds of clusters, and those that the chart is checked with.
func dryRun(t *testing.T, c *cluster) {
	clusters, err := filepath.Glob(chart + "/values-*.yaml")
	require.NoError(t, err)
	checks, err := filepath.Glob(chart + "/ci/*.yaml")
	require.NoError(t, err)
	require.Len(t, clusters, 4)
	for _, values := range append(clusters, checks...) {
		t.Run(filepath.Base(values), func(t *testing.T) {
			manifests := filepath.Join(t.TempDir(), "manifests.yaml")
			rendered := withoutCustom(c.runHelm(t, "template", "dry", chart, "--namespace", "default", "--no-hooks", "--set", "image.registry=localhost/slurmlet", "-f", values))
			require.NoError(t, os.WriteFile(manifests, []byte(rendered), 0o600))
			c.kubectl(t, "create", "--dry-run=server", "-f", manifests)
		})
	}
	assert.Empty(t, c.objects(t), "a dry run has made something")
}

// withoutCustom leaves out what is of kinds that only an operator brings along.
func withoutCustom(manifests string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(manifests, "\n---\n"), func(one string) bool {
		return strings.Contains(one, "kind: ScaledObject") || strings.Contains(one, "kind: PodMonitor")
	}), "\n---\n")
}

func (c *cluster) runHelm(t *testing.T, args ...string) string {
	t.Helper()
	if c.namespace != "" {
		args = append(args, "--namespace", c.namespace)
	}
	cmd := exec.CommandContext(t.Context(), c.helm, args...)
	cmd.Env = append(os.Environ(), c.Environment()...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "helm %v: %s", args, said.String())
	return string(out)
}
