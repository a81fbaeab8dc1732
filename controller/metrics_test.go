package controller

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden file of the metrics anew")

// described is what prometheus.Desc tells of itself.
var described = regexp.MustCompile(`^Desc\{fqName: "(slurmlet_\w+)", help: "(.*?)"(?:, unit: ".*?")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// TestMetrics: testdata/metrics.prom has each metric of the controller. docs/reference/metrics-list.md is made from it.
func TestMetrics(t *testing.T) {
	const golden = "testdata/metrics.prom"
	descriptions := make(chan *prometheus.Desc, 1024)
	(&controller{}).metrics("v1").Describe(descriptions)
	close(descriptions)
	var all []string
	for d := range descriptions {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			continue // Go's own
		}
		var labels []string
		for name := range strings.SplitSeq(m[3]+","+m[4], ",") {
			if name, _, _ = strings.Cut(name, "="); name != "" {
				labels = append(labels, fmt.Sprintf("%s=%q", name, ""))
			}
		}
		all = append(all, fmt.Sprintf("# HELP %[1]s %[2]s\n%[1]s{%[3]s} 0\n", m[1], m[2], strings.Join(labels, ",")))
	}
	slices.Sort(all)
	text := strings.Join(all, "")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	have, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, text, string(have), "-update writes it")
}
