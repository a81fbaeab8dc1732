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
	for _, chart := range charts {
		t.Run(filepath.Base(chart), func(t *testing.T) {
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
		})
	}
}

// TestTheSchemaDescribesTheValues: an editor that knows the schema tells what values.yaml says of a value.
func TestTheSchemaDescribesTheValues(t *testing.T) {
	for _, chart := range charts {
		t.Run(filepath.Base(chart), func(t *testing.T) {
			values, err := readValues(chart + "/values.yaml")
			require.NoError(t, err)
			have, err := os.ReadFile(chart + "/values.schema.json")
			require.NoError(t, err)
			want, err := described(have, values)
			require.NoError(t, err)
			if os.Getenv("UPDATE") != "" {
				require.NoError(t, os.WriteFile(chart+"/values.schema.json", []byte(want), 0o644))
				return
			}
			assert.Equal(t, want, string(have), "make charts UPDATE=1 writes it")
		})
	}
}

// TestTheREADMEHasValuesThatAreRendered: its examples are files that TestTemplatesAreValid renders.
func TestTheREADMEHasValuesThatAreRendered(t *testing.T) {
	readme, err := os.ReadFile(chart + "/README.md")
	require.NoError(t, err)
	for _, name := range []string{"autoscaling", "elastic", "external-slurmdbd", "own-image"} {
		text, err := os.ReadFile(chart + "/ci/" + name + "-values.yaml")
		require.NoError(t, err)
		_, values, _ := strings.Cut(string(text), "\n") // the first line is a comment
		assert.Contains(t, string(readme), "```yaml\n"+values+"```\n", name)
	}
}

func TestEveryValueIsExplained(t *testing.T) {
	for _, chart := range charts {
		t.Run(filepath.Base(chart), func(t *testing.T) {
			values, err := readValues(chart + "/values.yaml")
			require.NoError(t, err)
			for _, v := range values {
				if _, restated := leafOf(v.path, leaves(schemaOf(t, chart))); !restated || !strings.HasSuffix(v.path, "terminationGracePeriodSeconds") {
					assert.NotEmpty(t, v.about, v.path)
				}
			}
			for _, leaf := range leaves(schemaOf(t, chart)) {
				there := slices.ContainsFunc(values, func(v value) bool {
					return !v.section && (leaf == v.path || strings.HasPrefix(leaf, v.path+"."))
				})
				assert.True(t, there || leaf == "global", "values.yaml does not tell of %s", leaf)
			}
		})
	}
}

func TestEveryValueIsSetByATest(t *testing.T) {
	for _, chart := range charts {
		t.Run(filepath.Base(chart), func(t *testing.T) {
			known := leaves(schemaOf(t, chart))
			var found []string
			for _, path := range valueSets(t, chart) {
				found = append(found, used(readMap(t, path), known)...)
			}
			for _, leaf := range known {
				assert.True(t, slices.Contains(found, leaf) || leaf == "global", "no value set in ci sets %s", leaf)
			}
		})
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
		"a dry run, which has gone":            "controller: {preflight: full}",
		"passwords, which have gone":           "web: {existingSecret: slurm-web-users}",
		"tokens, which have gone":              "web: {tokens: true}",
		"a header with a blank":                `web: {userHeader: "X User"}`,
		"a way to cgroups that there is not":   "cgroup: {access: privileged}",
		"no seccomp profile at all":            "jobContainers: {seccompProfile: {type: Unconfined}}",
		"a seccomp profile anywhere":           "jobContainers: {seccompProfile: /etc/passwd}",
		"an option of containers that is none": "jobContainers: {defaults: {save: true}}",
		"a private directory that is relative": "jobContainers: {privateDirs: [tmp]}",
		"a private directory that jobs need":   "jobContainers: {privateDirs: [/etc]}",
		"memory in units that the agent lacks": "nodeDefaults: {reserveMemory: 64M}",
		"another end of files without a job":   "nodeSets: {cpu: {leftovers: burn}}",
		"another end of a job without a step":  "nodeSets: {cpu: {deadSteps: restart}}",
		"an elastic set of no nodes":           "nodeSets: {gpu: {elastic: {max: 0}}}",
		"an elastic set of too many nodes":     "nodeSets: {gpu: {elastic: {max: 65537}}}",
		"an elastic set of fewer than none":    "nodeSets: {gpu: {elastic: {min: -1, max: 2}}}",
		"an elastic set that never rests":      "nodeSets: {gpu: {elastic: {max: 2, idleSeconds: 0}}}",
		"an unknown value of an elastic set":   "nodeSets: {gpu: {elastic: {max: 2, replicas: 1}}}",
		"a key that is not one of slurm.conf":  `slurm: {conf: {"a b": 1}}`,
		"an empty list of lines":               "slurm: {conf: {Prolog: []}}",
		"a list of a key that occurs once":     "slurm: {conf: {MaxJobCount: [1, 2]}}",
		"slurm.conf as a file":                 "slurm: {files: {slurm.conf: x}}",
		"a file outside of the directory":      "slurm: {files: {../x: x}}",
		"a user's memory in another unit":      "login: {userLimits: {memory: 4GB}}",
		"both bounds of a disruption":          "login: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}",
		"a grace period without time":          "nodeDefaults: {terminationGracePeriodSeconds: 1}",
		"a password in lines":                  `accounting: {database: {password: "a\nb"}}`,
		"a password in quotes":                 `accounting: {database: {password: '"a"'}}`,
		"a password with a quote and a blank":  `accounting: {database: {password: 'a "b'}}`,
		"accounts in another spelling":         "accounts: {Users: {}}",
		"a confirmation in words":              "accounts: {confirm: all}",
		"a key of a Secret without a name":     "accounting: {database: {passwordSecret: {key: ''}}}",
		"leavers by their number":              "usersRemoved: 3",
		"a user with a system's uid":           "users: [{name: a, uid: 999}]",
		"a user's groups without numbers":      "users: [{name: a, uid: 2000, groups: [b]}]",
		"a key of two lines":                   `users: [{name: a, uid: 2000, keys: ["a\nb"]}]`,
		"a policy that Services lack":          "controller: {service: {externalTrafficPolicy: local}}",
		"MariaDB's tolerations as a map":       "accounting: {mariadb: {tolerations: {}}}",
		"a value that MariaDB has not":         "accounting: {mariadb: {sidecars: []}}",
		"a shared volume without a place":      "sharedVolumes: [{name: home, volume: {emptyDir: {}}}]",
		"a collection in other units":          "controller: {clusterInterval: 15}",
		"more users than the agent tells":      "controller: {metricsUsers: 20000}",
		"an alert without a name":              `prometheusRule: {disabled: [""]}`,
		"a controller without a port":          "peers: {address: slurmlet.slurmlet.svc}",
		"a controller's URL":                   "peers: {address: https://slurmlet.slurmlet.svc}",
		"scrape annotations as a map":          "scrapeAnnotations: {enabled: true}",
		"a label of dashboards as a number":    "dashboards: {labels: {grafana_dashboard: 1}}",
		"a Slurm version in other words":       "image: {slurm: 24.11.5}",
	} {
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(values), &v), name)
		assert.Error(t, compiled(t, chart).Validate(v), name)
	}
}

func TestValuesThatTheControllerRefuses(t *testing.T) {
	for name, values := range map[string]string{
		"an unknown value":             "replica: 2",
		"a negative number":            "replicas: -1",
		"a lifetime in days":           "caLifetime: 365d",
		"a level that there is not":    "logLevel: trace",
		"a port that there is not":     "service: {port: 70000}",
		"an unknown bound":             "podDisruptionBudget: {available: 1}",
		"a name that no Service has":   "fullnameOverride: Slurmlet",
		"an unknown family":            "service: {ipFamilies: [IPv5]}",
		"tolerations as a map":         "tolerations: {}",
		"agents as a text":             "networkPolicy: {agentsFrom: all}",
		"annotations that are no text": "podAnnotations: {a: 1}",
	} {
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(values), &v), name)
		assert.Error(t, compiled(t, controllerChart).Validate(v), name)
	}
}

// valueSets are the files with values: tests, and those for kinds of clusters.
func valueSets(t *testing.T, chart string) []string {
	t.Helper()
	sets, err := filepath.Glob(chart + "/ci/*.yaml")
	require.NoError(t, err)
	clusters, err := filepath.Glob(chart + "/values-*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(sets), 2)
	return append(sets, clusters...)
}

func schemaOf(t *testing.T, chart string) node {
	t.Helper()
	data, err := os.ReadFile(chart + "/values.schema.json")
	require.NoError(t, err)
	var schema node
	require.NoError(t, json.Unmarshal(data, &schema))
	return schema
}

func compiled(t *testing.T, chart string) *jsonschema.Schema {
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
