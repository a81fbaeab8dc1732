package controller

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var needed = []string{"SLURMLET_NAMESPACE=slurmlet", "SLURMLET_POD_NAME=slurmlet-a"}

func TestFromEnv(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		faults  []string
	}{
		"what is required": {environ: needed},
		"nothing": {nil, []string{
			"SLURMLET_NAMESPACE: want a name: the chart sets it from the pod's own fields",
			"SLURMLET_POD_NAME: want a name: the chart sets it from the pod's own fields",
		}},
		"every fault at once": {append(needed, "SLURMLET_LOG_LEVEL=loud", "SLURMLET_HEALTH_ADDRESS=8080", "SLURMLET_X=1", "X=1"), []string{
			`SLURMLET_LOG_LEVEL: slog: level string "loud": unknown name`,
			`SLURMLET_HEALTH_ADDRESS: want [address]:port, not "8080"`,
			"SLURMLET_X: there is no such variable",
		}},
		"a webhook without an image": {append(needed, "SLURMLET_WEBHOOK=slurmlet"), []string{"SLURMLET_WEBHOOK: the pods need SLURMLET_AGENT_IMAGE and SLURMLET_PEERS"}},
		"a webhook's faults": {append(needed, "SLURMLET_AGENT_PULL_POLICY=always", "SLURMLET_AGENT_VOLUME=hostPath", "SLURMLET_INJECT_GRACE_PERIOD=86400"), []string{
			`SLURMLET_AGENT_PULL_POLICY: want Always, IfNotPresent or Never, not "always"`,
			`SLURMLET_AGENT_VOLUME: want emptyDir or image, not "hostPath"`,
			`SLURMLET_INJECT_GRACE_PERIOD: want a duration of a second or more, such as 24h, not "86400"`,
		}},
		"addresses for pods": {environ: append(needed, "SLURMLET_PEERS_CLUSTER_IPS=10.96.0.80,fd00::80")},
		"addresses for pods, with a name": {append(needed, "SLURMLET_PEERS_CLUSTER_IPS=10.96.0.80,slurmlet"), []string{
			`SLURMLET_PEERS_CLUSTER_IPS: want IP addresses separated by commas, as in 10.96.0.80,fd00::80, not "10.96.0.80,slurmlet"`,
		}},
		"machines and what is written": {environ: append(needed,
			"SLURMLET_MACHINE_FEATURES=zone-{topology.kubernetes.io/zone}", "SLURMLET_DRAIN_TAINTS=usual,maintenance", "SLURMLET_DRAIN_CONDITIONS=none", "SLURMLET_CORDON=taint",
			"SLURMLET_CORDON_NAMESPACES=hpc,lab",
		)},
		"machines and what is written, with faults": {append(needed,
			"SLURMLET_MACHINE_WEIGHT={type|big=x}", "SLURMLET_DRAIN_TAINTS=usual,a b:NoSchedule", "SLURMLET_CORDON=yes", "SLURMLET_SCALE_IN=1",
		), []string{
			`SLURMLET_MACHINE_WEIGHT: weight: cannot use "{type|big=x}": "x" has characters that Slurm does not take there: want digits`,
			`SLURMLET_DRAIN_TAINTS: taints: cannot use "a b:NoSchedule": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`SLURMLET_CORDON: want off, cordon or taint, not "yes"`,
			`SLURMLET_SCALE_IN: want true or false, not "1"`,
		}},
		"marks for anybody's drains": {append(needed, "SLURMLET_CORDON=cordon"), []string{"SLURMLET_CORDON: name the namespaces whose drains mark machines (SLURMLET_CORDON_NAMESPACES)"}},
		"marks for a cluster's drains": {append(needed, "SLURMLET_CORDON=cordon", "SLURMLET_CORDON_NAMESPACES=hpc/slurm"), []string{
			`SLURMLET_CORDON_NAMESPACES: want none, or namespaces separated by commas, not "hpc/slurm"`,
			"SLURMLET_CORDON: name the namespaces whose drains mark machines (SLURMLET_CORDON_NAMESPACES)",
		}},
		"elastic sets":          {environ: append(needed, "SLURMLET_ELASTIC=hpc,lab", "SLURMLET_ELASTIC_QPS=0.5", "SLURMLET_ELASTIC_BURST=1")},
		"pods in Slurm's queue": {environ: append(needed, "SLURMLET_BRIDGE=true", "SLURMLET_BRIDGE_NAMESPACES=team,lab", "SLURMLET_BRIDGE_QPS=0.5")},
		"pods in Slurm's queue, with faults": {append(needed, "SLURMLET_BRIDGE=yes", "SLURMLET_BRIDGE_NAMESPACES=team,"), []string{
			`SLURMLET_BRIDGE: want true or false, not "yes"`,
			`SLURMLET_BRIDGE_NAMESPACES: want all, or namespaces separated by commas, not "team,"`,
		}},
		"elastic sets, with faults": {append(needed, "SLURMLET_ELASTIC=hpc,", "SLURMLET_ELASTIC_QPS=NaN", "SLURMLET_ELASTIC_BURST=0"), []string{
			`SLURMLET_ELASTIC: want none, all, or namespaces separated by commas, not "hpc,"`,
			`SLURMLET_ELASTIC_QPS: want a number from 0.1 to 10000, not "NaN"`,
			`SLURMLET_ELASTIC_BURST: want a whole number from 1 to 10000, not "0"`,
		}},
		"namespaces":              {environ: append(needed, "SLURMLET_NAMESPACES=lab,hpc", "SLURMLET_ELASTIC=hpc", "SLURMLET_CONFIG_MAPS=lab/slurm")},
		"namespaces, with faults": {append(needed, "SLURMLET_NAMESPACES=hpc,*"), []string{`SLURMLET_NAMESPACES: want all, or namespaces separated by commas, not "hpc,*"`}},
		"namespaces that lack some": {append(needed, "SLURMLET_NAMESPACES=hpc", "SLURMLET_ELASTIC=hpc,lab", "SLURMLET_CONFIG_MAPS=hpc/slurm,lab/slurm", "SLURMLET_CORDON=cordon", "SLURMLET_CORDON_NAMESPACES=hpc,lab"), []string{
			"SLURMLET_ELASTIC: SLURMLET_NAMESPACES lacks the namespace lab", "SLURMLET_CORDON_NAMESPACES: SLURMLET_NAMESPACES lacks the namespace lab", "SLURMLET_CONFIG_MAPS: SLURMLET_NAMESPACES lacks the namespace of lab/slurm",
		}},
		"ConfigMaps":              {environ: append(needed, "SLURMLET_CONFIG_MAPS=hpc/slurm,lab/slurm")},
		"ConfigMaps, with faults": {append(needed, "SLURMLET_CONFIG_MAPS=slurm"), []string{`SLURMLET_CONFIG_MAPS: want namespace/name of a ConfigMap, not "slurm"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := FromEnv(c.environ)
			if c.faults == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, strings.Join(c.faults, "\n"), err.Error())
		})
	}
}

// TestReference: the package comment has every variable, in its place and with its default.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^//\t(SLURMLET_\w+) +.*?(?:\(([^()]*)\)|; required|; default: none(?:, .*)?)$`)
	var said []string
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		said = append(said, m[1]+"="+m[2])
	}
	var want []string
	for _, v := range variables {
		want = append(want, v.name+"="+v.fallback)
	}
	assert.Equal(t, want, said)
}

// TestElasticIn: pods of elastic sets are made where clusters may be, and nowhere else.
func TestElasticIn(t *testing.T) {
	for _, c := range []struct{ namespaces, elastic, want string }{
		{"all", "all", "all"}, {"all", "hpc", "hpc"}, {"hpc,lab", "all", "hpc,lab"}, {"hpc,lab", "lab", "lab"},
	} {
		s, err := FromEnv(append(needed, "SLURMLET_NAMESPACES="+c.namespaces, "SLURMLET_ELASTIC="+c.elastic))
		require.NoError(t, err)
		assert.Equal(t, c.want, s.Elastic.In.String(), c)
		assert.True(t, s.Elastic.On)
	}
}
