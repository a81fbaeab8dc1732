package topology_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/topology"
)

func parse(text string) ([]topology.Topology, slurmconf.Findings) {
	file, _ := slurmconf.Parse("topology.yaml", text)
	return topology.Parse(file)
}

func TestParse(t *testing.T) {
	text, err := os.ReadFile("../testdata/dynamic/topology.yaml")
	require.NoError(t, err)
	all, findings := parse(string(text))
	assert.Empty(t, findings)
	at := func(line, column int) slurmconf.Position {
		return slurmconf.Position{File: "topology.yaml", Line: line, Column: column}
	}
	assert.Equal(t, []topology.Topology{
		{Name: "racks", Plugin: "tree", Default: true, From: at(2, 3), Groups: []topology.Group{
			{Name: "all", Children: "r[1-2]", From: at(6, 9)},
			{Name: "r1", Nodes: "pod-[0-15]", From: at(8, 9)},
			{Name: "r2", Nodes: "pod-[16-31]", From: at(10, 9)},
		}},
		{Name: "flat", Plugin: "flat", From: at(12, 3)},
	}, all)
}

func TestNodesAsAList(t *testing.T) {
	all, findings := parse("- topology: a\n  block:\n    block_sizes: [4, 8]\n    blocks:\n    - block: b\n      nodes: [n1, n2]\n")
	assert.Equal(t, "topology.yaml:6:14: error: nodes is a list: want a text", findings.Error(), "Slurm converts none")
	assert.Equal(t, "4,8", all[0].BlockSizes)
}

func TestFindings(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "topology.yaml: error: the file is empty: want topologies, or no topology.yaml",
		"[]\n":                            "topology.yaml:1:1: error: the list of topologies is empty, over which slurmctld ends by a signal: want topologies, or no topology.yaml",
		"- &a {flat: true}\n- *a\n":       "topology.yaml:2:3: error: *a is an alias, and Slurm reads none: want what it stands for",
		"- topology: a\n  tree: [":        "topology.yaml:2: error: did not find expected node content: want YAML",
		"a: b\n":                          "topology.yaml:1:1: error: topology is of no kind: want one of block, flat, ring, torus3d, tree",
		"- a\n":                           `topology.yaml:1:3: error: a topology is "a": want keys and values`,
		"- flat: true\n":                  "",
		"- topology: a\n":                 "topology.yaml:1:3: error: topology a is of no kind: want one of block, flat, ring, torus3d, tree",
		"- topology: a\n  tree: 1\n":      `topology.yaml:2:9: error: a topology's definition is "1": want keys and values`,
		"- topology: a\n  tree: {a: b}\n": "topology.yaml:2:9: error: the topology has no switches: want a list of them",
		"- topology: a\n  tree:\n    switches: [{nodes: n}]\n": "topology.yaml:3:16: error: a switch has no name: want switch: and its name",
		strings.Repeat("[", 20000):                             "topology.yaml: error: exceeded max depth of 10000: want YAML",
	} {
		_, findings := parse(text)
		assert.Equal(t, want, findings.Error(), text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("- topology: a\n  tree:\n    switches: &s\n    - {switch: b, nodes: [n1, *s], children: c}\n  flat: true\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, findings := parse(text)
		for _, one := range all {
			assert.Positive(t, one.From.Line)
		}
		assert.NotPanics(t, func() { _ = findings.Err() })
	})
}
