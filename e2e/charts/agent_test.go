package charts

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
)

// What a pod tells its agent is what the agent takes, and it is told once:
// otherwise the pod would end with status 78.
func TestAgentsTakeWhatPodsTellThem(t *testing.T) {
	helm := program(t, "HELM")
	seen := map[agent.Role]int{}
	for _, set := range valueSets(t) {
		for _, object := range render(t, helm, set) {
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
	spec, _ := object["spec"].(node)
	template, _ := spec["template"].(node)
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
	fields := map[string]string{"metadata.name": "slurm-cpu-0", "limits.cpu": "4000", "limits.memory": "8589934592", "limits.ephemeral-storage": "21474836480"}
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
