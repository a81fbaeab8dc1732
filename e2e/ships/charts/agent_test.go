package charts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
)

// What a pod tells its agent is what the agent takes, and it is told once:
// otherwise the pod would end with status 78.
func TestAgentsTakeWhatPodsTellThem(t *testing.T) {
	helm := helmProgram(t)
	seen := map[agent.Role]int{}
	for _, set := range valueSets(t, chart) {
		for _, object := range render(t, helm, chart, set) {
			for _, container := range containers(object) {
				role, err := agent.ParseRole(container["name"].(string))
				if err != nil {
					continue // a sidecar, or MariaDB
				}
				seen[role]++
				_, err = agent.FromEnv(role, environment(t, container))
				assert.NoError(t, err, "%s: %s", filepath.Base(set), role)
			}
		}
	}
	for _, role := range agent.Roles() {
		assert.Positive(t, seen[role], role)
	}
}

// containers are those of an object's pods.
func containers(object node) (all []node) {
	template := podTemplate(object)
	pod, _ := template["spec"].(node)
	list, _ := pod["containers"].([]any)
	for _, container := range list {
		all = append(all, container.(node))
	}
	return all
}

// environment is what a container's process gets, with samples of what only the
// kubelet knows.
func environment(t *testing.T, container node) (environ []string) {
	t.Helper()
	fields := map[string]string{"metadata.name": "slurm-cpu-0", "spec.nodeName": "machine-1", "limits.cpu": "4000", "limits.memory": "8589934592", "limits.ephemeral-storage": "21474836480"}
	for _, variable := range container["env"].([]any) {
		v := variable.(node)
		value, plain := v["value"].(string)
		if !plain {
			value = fields[source(v)]
			require.NotEmpty(t, value, v)
		}
		environ = append(environ, v["name"].(string)+"="+value)
	}
	return environ
}

// source is the field that a variable is taken from.
func source(variable node) string {
	from, _ := variable["valueFrom"].(node)
	for kind, key := range map[string]string{"fieldRef": "fieldPath", "resourceFieldRef": "resource"} {
		if ref, ok := from[kind].(node); ok {
			return ref[key].(string)
		}
	}
	return ""
}

// What the chart says of an elastic set is what slurmctld's agent takes, and the records get the names and the size
// of the set's pods.
func TestSlurmctldsAgentTakesElasticSets(t *testing.T) {
	helm := helmProgram(t)
	var found []string
	for _, object := range render(t, helm, chart, chart+"/ci/elastic-values.yaml") {
		if object["kind"] != "ConfigMap" || object["metadata"].(node)["name"] != "slurm-elastic" {
			continue
		}
		for file, text := range object["data"].(node) {
			set, err := planner.Parse(strings.TrimSuffix(file, planner.Suffix), []byte(text.(string)))
			require.NoError(t, err)
			found = append(found, fmt.Sprintf("%s %d-%d %s", set.NodeNames, set.Min, set.NodeNames.Len(), set.CreateParameters(true)))
		}
	}
	slices.Sort(found)
	assert.Equal(t, []string{
		"slurm-burst-[0-499] 0-500 CPUs=4 RealMemory=16320 SuspendTime=600 Feature=burst Weight=10 State=CLOUD",
		"slurm-gpu-[0-39] 1-40 CPUs=32 RealMemory=524224 Gres=gpu:h200:8 SuspendTime=300 Feature=gpu State=CLOUD",
	}, found)
}
