//go:build e2e

package kube

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// controllerPolicy is the name of the ValidatingAdmissionPolicy of charts/slurmlet.
const controllerPolicy = "controller." + controllerHome + "." + controllerHome

// heldToRights has the controller's own token do what its rights alone would allow, by plain requests. e2e/controller
// has all forms of it.
func heldToRights(t *testing.T, c *cluster) {
	until(t, "Kubernetes has judged the policy's expressions", func() (bool, string) {
		saw := c.kubectl(t, "get", "validatingadmissionpolicy", controllerPolicy, "-o", "jsonpath={.status.observedGeneration} {.status.typeChecking.expressionWarnings}")
		return strings.TrimSpace(saw) == "1", saw
	})
	const victim = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"victim","namespace":"kube-system"},` +
		`"spec":{"schedulingGates":[{"name":"example.com/never"}],"automountServiceAccountToken":false,"containers":[{"name":"c","image":"127.0.0.1:1/none"}]}}`
	require.NoError(t, c.Apply(t.Context(), victim))
	defer c.kubectl(t, "delete", "pod", "victim", "-n", "kube-system", "--force", "--grace-period=0")
	api := c.kubectl(t, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	token := c.kubectl(t, "create", "token", controllerHome, "-n", controllerHome)
	const pods = "/api/v1/namespaces/kube-system/pods"
	for _, one := range []struct{ method, path, kind, body, says string }{
		{
			http.MethodPatch, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" + controllerHome + "." + controllerHome,
			"application/json-patch+json", `[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["secrets"]}]`,
			"slurmlet's controller may change caBundle alone in its MutatingWebhookConfiguration",
		},
		{
			http.MethodPatch, pods + "/victim/status", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Failed"}}`,
			"slurmlet's controller may mark pods alone that have the labels slurmlet.dev/cluster and slurmlet.dev/role=slurmd",
		},
		{
			http.MethodDelete, pods + "/victim", "application/json", "",
			"slurmlet's controller may delete pods alone that have the labels slurmlet.dev/cluster and slurmlet.dev/role=slurmd, and",
		},
		{
			http.MethodPost, pods, "application/json", strings.ReplaceAll(strings.ReplaceAll(victim, `"victim"`, `"new"`), `"image":`, `"securityContext":{"privileged":true},"image":`),
			"slurmlet's controller may create pods alone that have the labels slurmlet.dev/cluster, slurmlet.dev/elastic and slurmlet.dev/role=slurmd",
		},
	} {
		request, err := http.NewRequestWithContext(t.Context(), one.method, api+one.path, strings.NewReader(one.body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", one.kind)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
		answer, err := client.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, err)
		assert.Equal(t, http.StatusForbidden, answer.StatusCode, one.path)
		assert.Contains(t, string(text), "ValidatingAdmissionPolicy '"+controllerPolicy+"' with binding '"+controllerPolicy+"' denied request: "+one.says)
	}
}
