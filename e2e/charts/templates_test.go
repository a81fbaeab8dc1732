package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// What templates make, whatever the values, is what Kubernetes takes.
func TestTemplatesAreValid(t *testing.T) {
	helm := program(t, "HELM")
	api := kubernetes(t)
	for _, set := range valueSets(t) {
		t.Run(filepath.Base(set), func(t *testing.T) {
			objects := render(t, helm, set)
			require.NotEmpty(t, objects)
			for _, object := range objects {
				assert.NoError(t, api.validate(object), "%v %v", object["kind"], object["metadata"])
			}
		})
	}
}

// A schema that takes everything would make the test above worthless.
func TestValidationIsStrict(t *testing.T) {
	program(t, "HELM")
	api := kubernetes(t)
	for name, object := range map[string]string{
		"an unknown field":          "{apiVersion: apps/v1, kind: StatefulSet, spec: {selector: {}, template: {}, replica: 1}}",
		"an unknown field inside":   "{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, images: b}]}}",
		"a field of the wrong type": `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, ports: [{containerPort: "80"}]}]}}`,
		"a field that is missing":   "{apiVersion: v1, kind: Pod, spec: {containers: [{image: a}]}}",
		"an unknown kind":           "{apiVersion: v1, kind: Pot}",
		"an unknown field of KEDA":  "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, spec: {scaleTargetRef: {name: a}, triggers: [], min: 1}}",
	} {
		var v node
		require.NoError(t, yaml.Unmarshal([]byte(object), &v), name)
		assert.Error(t, api.validate(v), name)
	}
}

// program returns what a variable of `make charts` names.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: run make charts", variable)
	}
	return path
}

func render(t *testing.T, helm, values string) []node {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm, "template", "slurm", chart, "--namespace", "hpc", "--values", values)
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
