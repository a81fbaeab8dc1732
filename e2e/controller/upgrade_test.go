//go:build e2e

package controller

import (
	"os"
	"os/exec"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/e2e/papers"
)

// upgradeHome is the namespace of the cluster that is upgraded.
const upgradeHome = "upgrade"

// slurmUpgrade: helm changes nothing of a cluster of an older Slurm before slurm.upgrade=true. The claim for a dump comes
// with it, and stays when it goes.
func slurmUpgrade(b *bed) {
	b.namespace(upgradeHome)
	values := []string{"--set", "image.registry=registry.example/slurmlet,image.tag=v1,accounting.enabled=true"}
	helm := func(args ...string) (string, error) {
		command := exec.CommandContext(b.Context(), given.Helm, append(args, "--namespace", upgradeHome)...)
		command.Env = append(os.Environ(), "KUBECONFIG="+b.file("admin"), "HOME="+b.dir)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	succeeds := func(args ...string) {
		b.Helper()
		said, err := helm(args...)
		require.NoError(b, err, said)
	}
	objects := func() string { // with what any change of theirs moves
		all, err := b.kube.AppsV1().StatefulSets(upgradeHome).List(b.Context(), metav1.ListOptions{})
		require.NoError(b, err)
		var text strings.Builder
		for _, one := range all.Items {
			text.WriteString(one.Name + " " + one.ResourceVersion + " " + one.Spec.Template.Spec.Containers[0].Image + "\n")
		}
		return text.String()
	}
	claim := func() (string, error) {
		found, err := b.kube.CoreV1().PersistentVolumeClaims(upgradeHome).Get(b.Context(), "slurm-slurmdbd-dumps", metav1.GetOptions{})
		return string(found.UID), err
	}
	const chart = "../../charts/slurm"
	succeeds(append([]string{"install", "slurm", chart, "--set", "image.slurm=24.11"}, values...)...)

	before := objects()
	assert.Contains(b, before, "registry.example/slurmlet/slurmctld:v1-24.11\n")
	said, err := helm(append([]string{"upgrade", "slurm", chart}, values...)...) // with the chart's own default
	require.Error(b, err)
	assert.Contains(b, said, "slurmctld is of Slurm 24.11, and image.slurm=26.05 would convert its state and the database for good: "+
		"set slurm.upgrade=true to have it, or image.slurm=24.11 to stay")
	assert.Equal(b, before, objects(), "the upgrade has changed something")
	_, err = claim()
	require.Error(b, err, "there is nothing to dump")

	succeeds(append([]string{"upgrade", "slurm", chart, "--set", "slurm.upgrade=true"}, values...)...)
	assert.Contains(b, objects(), "registry.example/slurmlet/slurmctld:v1-26.05\n")
	first, err := claim()
	require.NoError(b, err)
	for _, upgrade := range []string{"false", "true"} { // it finds its claim again
		succeeds("upgrade", "slurm", chart, "--reuse-values", "--set", "slurm.upgrade="+upgrade)
		again, err := claim()
		require.NoError(b, err)
		assert.Equal(b, first, again)
	}
	pods := b.podsOfPage()
	assert.Len(b, pods, 2)
	succeeds("uninstall", "slurm")
	last, err := claim()
	require.NoError(b, err)
	assert.Equal(b, first, last)
}

// podsOfPage has the API take the pods that docs/run/upgrade.md makes for the way back, and returns their manifests.
func (b *bed) podsOfPage() (manifests []string) {
	page, err := papers.Read("../..", "docs/run/upgrade.md")
	require.NoError(b, err)
	for _, block := range page.Blocks {
		_, manifest, found := strings.Cut(block.Text, "kubectl -n slurm apply -f - <<EOF\n")
		if !found {
			continue
		}
		manifest, _, _ = strings.Cut(manifest, "\nEOF\n")
		manifests = append(manifests, manifest)
		said, err := b.kubectl(manifest, "apply", "--dry-run=server", "--validate=strict", "-n", upgradeHome, "-f", "-")
		assert.NoError(b, err, "%s: %s", block, said)
	}
	return manifests
}
