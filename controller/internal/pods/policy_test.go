package pods

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
)

// TestThePolicy: the chart's policy knows the names of all that the controller writes, which a kube-apiserver holds the
// controller to in e2e/controller.
func TestThePolicy(t *testing.T) {
	var policy strings.Builder
	for _, file := range []string{"_policy.tpl", "policy.yaml"} {
		text, err := os.ReadFile("../../../charts/slurmlet/templates/" + file)
		require.NoError(t, err)
		policy.Write(text)
	}
	for _, name := range []string{
		CostAnnotation, EvictAnnotation, ClusterLabel, RoleLabel, ElasticLabel, machines.Annotation, machines.DrainedAnnotation, machines.Taint,
	} {
		assert.Regexp(t, "[\"']"+name+"[\"']", policy.String(), name)
	}
}
