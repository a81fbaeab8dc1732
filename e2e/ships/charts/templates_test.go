package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// What templates make, whatever the values, is what Kubernetes takes.
func TestTemplatesAreValid(t *testing.T) {
	helm := helmProgram(t)
	api := kubernetes(t)
	for _, chart := range charts {
		for _, set := range valueSets(t, chart) {
			t.Run(filepath.Base(chart)+"/"+filepath.Base(set), func(t *testing.T) {
				objects := render(t, helm, chart, set)
				require.NotEmpty(t, objects)
				for _, object := range objects {
					assert.NoError(t, api.validate(object), "%v %v", object["kind"], object["metadata"])
				}
			})
		}
	}
}

// TestNobodyMakesKeysWithoutALook: helm template shows no Secret to a reader, and refuses one that Argo CD would make
// anew at each sync. Argo CD tells helm template the cluster's kinds.
func TestNobodyMakesKeysWithoutALook(t *testing.T) {
	helm := helmProgram(t)
	with := func(args ...string) (string, error) {
		args = append([]string{"template", "slurm", chart, "--set", "image.registry=registry.example/slurmlet,accounting.enabled=true"}, args...)
		out, err := exec.CommandContext(t.Context(), helm, args...).CombinedOutput()
		return string(out), err
	}
	shown, err := with()
	require.NoError(t, err, shown)
	assert.NotContains(t, shown, "kind: Secret")
	again, err := with()
	require.NoError(t, err)
	assert.Equal(t, shown, again, "what two renderings show is the same")
	kinds := []string{"--api-versions", "apps/v1", "--api-versions", "apps/v1/StatefulSet"}
	refused, err := with(kinds...)
	require.Error(t, err)
	assert.Contains(t, refused, "this rendering cannot look into the cluster")
	own, err := with(append(kinds, "--set", "auth.existingSecret=a,login.existingHostKeys=b,accounting.existingSecret=c")...)
	require.NoError(t, err, own)
	assert.Contains(t, own, "secretName: b")
}

// TestNamesAreTheirOwn: whatever the values, no two objects of a release are one in Kubernetes' eyes.
func TestNamesAreTheirOwn(t *testing.T) {
	helm := helmProgram(t)
	for _, chart := range charts {
		for _, set := range valueSets(t, chart) {
			t.Run(filepath.Base(chart)+"/"+filepath.Base(set), func(t *testing.T) {
				seen := map[string]bool{}
				for _, object := range render(t, helm, chart, set) {
					group, _, _ := strings.Cut(object["apiVersion"].(string), "/")
					m := object["metadata"].(node)
					name := fmt.Sprint(group, " ", object["kind"], " ", m["namespace"], "/", m["name"])
					assert.False(t, seen[name], "two of %s", name)
					seen[name] = true
				}
			})
		}
	}
}

// TestValuesThatReplacePodsSaySo: a value of all roles changes a pod template if, and only if, its
// comment or its section's says that a change replaces pods.
func TestValuesThatReplacePodsSaySo(t *testing.T) {
	helm := helmProgram(t)
	values, err := readValues(chart + "/values.yaml")
	require.NoError(t, err)
	base := file(t, "auth: {existingSecret: keys}\nlogin: {existingHostKeys: host}\naccounting: {enabled: true, existingSecret: database}\nrest: {enabled: true}\n")
	before := podTemplates(render(t, helm, chart, base))
	for path, changed := range map[string]string{
		"clusterDomain":           "clusterDomain: x.local",
		"clusterName":             "clusterName: other",
		"ipFamilyPolicy":          "ipFamilyPolicy: PreferDualStack",
		"commonLabels":            "commonLabels: {a: b}",
		"image.tag":               "image: {tag: v2}",
		"imagePullSecrets":        "imagePullSecrets: [{name: pull}]",
		"slurm.conf":              "slurm: {conf: {KillWait: 20}}",
		"slurm.gpus":              "slurm: {gpus: false}",
		"auth.existingSecret":     "auth: {existingSecret: others}",
		"cgroup.access":           "cgroup: {access: runtime}",
		"jobContainers.enabled":   "jobContainers: {enabled: true, seccompProfile: a.json}",
		"sharedVolumes":           "sharedVolumes: [{name: home, mountPath: /home, volume: {emptyDir: {}}}]",
		"peers.address":           "peers: {address: 'slurmlet.slurmlet.svc:443'}",
		"peers.clusterIPs":        "peers: {address: 'slurmlet.slurmlet.svc:443', clusterIPs: [10.96.0.80]}",
		"serviceAccount.name":     "serviceAccount: {name: one}",
		"podDefaults.logLevel":    "podDefaults: {logLevel: debug}",
		"networkPolicy.enabled":   "networkPolicy: {enabled: true}",
		"podMonitor.enabled":      "podMonitor: {enabled: true}",
		"scrapeAnnotations":       "scrapeAnnotations: true",
		"prometheusRule.enabled":  "prometheusRule: {enabled: true}",
		"dashboards.enabled":      "dashboards: {enabled: true}",
		"nodeDefaults.features":   "nodeDefaults: {features: [a]}",
		"controller.service.type": "controller: {service: {type: NodePort}}",
		"login.authorizedKeys":    "login: {authorizedKeys: {alice: key}}",
	} {
		says := slices.ContainsFunc(values, func(v value) bool {
			return (v.path == path || v.section && strings.HasPrefix(path, v.path+".")) && strings.Contains(v.about, "A change replaces")
		})
		after := podTemplates(render(t, helm, chart, base, file(t, changed)))
		assert.Equal(t, says, !assert.ObjectsAreEqual(before, after), "%s: does a change replace pods? It says %t", path, says)
	}
}

// podTemplates are those of all sets of pods, by the set's name.
func podTemplates(objects []node) map[string]any {
	all := map[string]any{}
	for _, object := range objects {
		if template := podTemplate(object); template != nil {
			all[object["metadata"].(node)["name"].(string)] = template
		}
	}
	return all
}

// podTemplate is what an object makes pods of; nil if it makes none.
func podTemplate(object node) node {
	if object["kind"] == "PodTemplate" {
		return object["template"].(node)
	}
	spec, _ := object["spec"].(node)
	template, _ := spec["template"].(node)
	return template
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A schema that takes everything would make the test above worthless.
func TestValidationIsStrict(t *testing.T) {
	helmProgram(t)
	api := kubernetes(t)
	for name, object := range map[string]string{
		"an unknown field":           "{apiVersion: apps/v1, kind: StatefulSet, spec: {selector: {}, template: {}, replica: 1}}",
		"an unknown field inside":    "{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, images: b}]}}",
		"a field of the wrong type":  `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, ports: [{containerPort: "80"}]}]}}`,
		"a field that is missing":    "{apiVersion: v1, kind: Pod, spec: {containers: [{image: a}]}}",
		"an unknown kind":            "{apiVersion: v1, kind: Pot}",
		"an unknown field of a rule": "{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, spec: {groups: [{name: a, rules: [{alert: a, expr: up, if: b}]}]}}",
		"an unknown field of KEDA":   "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, spec: {scaleTargetRef: {name: a}, triggers: [], min: 1}}",
	} {
		var v node
		require.NoError(t, yaml.Unmarshal([]byte(object), &v), name)
		assert.Error(t, api.validate(v), name)
	}
}

// helmProgram is the helm of `make charts`.
func helmProgram(t *testing.T) string {
	t.Helper()
	path := os.Getenv("HELM")
	if path == "" {
		t.Skip("HELM is not set: run make charts")
	}
	return path
}

// render has helm make the objects of a chart from files of values; the later win.
func render(t *testing.T, helm, chart string, values ...string) []node {
	t.Helper()
	args := []string{"template", "slurm", chart, "--namespace", "hpc", "--set", "image.registry=registry.example/slurmlet"}
	for _, path := range values {
		args = append(args, "--values", path)
	}
	cmd := exec.CommandContext(t.Context(), helm, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	return objects(t, out)
}

// objects reads what JSON can hold: helm's numbers are YAML's.
func objects(t *testing.T, manifests []byte) []node {
	t.Helper()
	var all []node
	for d := yaml.NewDecoder(bytes.NewReader(manifests)); ; {
		var object node
		err := d.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if object != nil {
			all = append(all, object)
		}
	}
}

// The modules that Kubernetes' own description and the kinds of others come with.
const (
	kubernetesModule = "k8s.io/kubernetes@v1.37.1"
	kedaModule       = "github.com/kedacore/keda/v2@v2.16.1"
	prometheusModule = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

func kubernetes(t *testing.T) *openAPI {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module(t, kubernetesModule), "api/openapi-spec/swagger.json"))
	require.NoError(t, err)
	api, err := readSwagger(data)
	require.NoError(t, err)
	for _, crd := range []string{
		filepath.Join(module(t, kedaModule), "config/crd/bases/keda.sh_scaledobjects.yaml"),
		filepath.Join(module(t, prometheusModule), "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"),
		filepath.Join(module(t, prometheusModule), "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
	} {
		require.NoError(t, api.addCRD(readMap(t, crd)))
	}
	return api
}

// module returns the directory of a module, which it downloads when need be.
func module(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", name)
	cmd.Dir = t.TempDir() // outside of our own module
	out, err := cmd.Output()
	require.NoError(t, err, string(out))
	var found struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &found))
	return found.Dir
}
