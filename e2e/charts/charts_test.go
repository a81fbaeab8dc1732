package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestTheREADMEHoldsTheValues(t *testing.T) {
	values, err := readValues(chart + "/values.yaml")
	require.NoError(t, err)
	have, err := os.ReadFile(chart + "/README.md")
	require.NoError(t, err)
	want, err := readme(string(have), values)
	require.NoError(t, err)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(chart+"/README.md", []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(have), "make charts UPDATE=1 writes it")
}

func TestEveryValueIsExplained(t *testing.T) {
	values, err := readValues(chart + "/values.yaml")
	require.NoError(t, err)
	for _, v := range values {
		if _, restated := leafOf(v.path, leaves(schemaOf(t))); !restated || !strings.HasSuffix(v.path, "terminationGracePeriodSeconds") {
			assert.NotEmpty(t, v.about, v.path)
		}
	}
	for _, leaf := range leaves(schemaOf(t)) {
		there := slices.ContainsFunc(values, func(v value) bool { return leaf == v.path || strings.HasPrefix(leaf, v.path+".") })
		assert.True(t, there || leaf == "global", "values.yaml does not tell of %s", leaf)
	}
}

func TestEveryValueIsSetByATest(t *testing.T) {
	known := leaves(schemaOf(t))
	var found []string
	for _, path := range valueSets(t) {
		found = append(found, used(readMap(t, path), known)...)
	}
	for _, leaf := range known {
		assert.True(t, slices.Contains(found, leaf) || leaf == "global", "no value set in charts/slurm/ci sets %s", leaf)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	for name, values := range map[string]string{
		"an unknown value":                     "slurmctl: {}",
		"an unknown value of a component":      "controller: {replica: 2}",
		"an unknown value of a node set":       "nodeSets: {cpu: {replica: 2}}",
		"a pod's value in the wrong type":      "login: {tolerations: {}}",
		"a node set named like a component":    "nodeSets: {login: {}}",
		"a node set that is no host name":      "nodeSets: {CPU: {}}",
		"a negative number of nodes":           "nodeSets: {cpu: {replicas: -1}}",
		"a workload that there is not":         "nodeDefaults: {workload: Job}",
		"a look at edits that there is not":    "controller: {preflight: start}",
		"a way to cgroups that there is not":   "cgroup: {access: privileged}",
		"memory in units that the agent lacks": "nodeDefaults: {reserveMemory: 64M}",
		"another end of a job without a step":  "nodeSets: {cpu: {deadSteps: restart}}",
		"a key that is not one of slurm.conf":  `slurm: {conf: {"a b": 1}}`,
		"slurm.conf as a file":                 "slurm: {files: {slurm.conf: x}}",
		"a file outside of the directory":      "slurm: {files: {../x: x}}",
		"both bounds of a disruption":          "login: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}",
		"a grace period without time":          "nodeDefaults: {terminationGracePeriodSeconds: 1}",
		"a password in lines":                  `accounting: {database: {password: "a\nb"}}`,
		"a password in quotes":                 `accounting: {database: {password: '"a"'}}`,
		"a password with a quote and a blank":  `accounting: {database: {password: 'a "b'}}`,
		"a policy that Services lack":          "controller: {service: {externalTrafficPolicy: local}}",
		"MariaDB's tolerations as a map":       "accounting: {mariadb: {tolerations: {}}}",
		"a value that MariaDB has not":         "accounting: {mariadb: {sidecars: []}}",
		"a shared volume without a place":      "sharedVolumes: [{name: home, volume: {emptyDir: {}}}]",
		"a Slurm version in other words":       "image: {slurm: 24.11.5}",
	} {
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(values), &v), name)
		assert.Error(t, compiled(t).Validate(v), name)
	}
}

// valueSets are the files with values: tests, and those for kinds of clusters.
func valueSets(t *testing.T) []string {
	t.Helper()
	sets, err := filepath.Glob(chart + "/ci/*.yaml")
	require.NoError(t, err)
	clusters, err := filepath.Glob(chart + "/values-*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(sets), 12)
	require.NotEmpty(t, clusters)
	return append(sets, clusters...)
}

func schemaOf(t *testing.T) node {
	t.Helper()
	data, err := os.ReadFile(chart + "/values.schema.json")
	require.NoError(t, err)
	var schema node
	require.NoError(t, json.Unmarshal(data, &schema))
	return schema
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(chart + "/values.schema.json")
	require.NoError(t, err)
	return schema
}

func readMap(t *testing.T, path string) node {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var values node
	require.NoError(t, yaml.Unmarshal(data, &values), path)
	return values
}
