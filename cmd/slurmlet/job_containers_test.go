package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
)

// TestJobContainers: slurmd registers the feature of a node that can make jobs' containers, beside the pod's own. A probe
// that fails or says nothing stops nothing, and its reason is in the status.
func TestJobContainers(t *testing.T) {
	annotated := map[string]string{"podinfo/annotations": "slurmlet.dev/features=\"big\"\n", "node.json": fits}
	for name, one := range map[string]struct {
		probe, lacks, says, metric string
		want                       []condition
	}{
		"can": {
			"echo directories: yes; echo squashfs files: yes", "", "can be made of directories, squashfs files and registries' images", "1",
			[]condition{wrote("availablefeatures=big,containers activefeatures=big,containers", 1)},
		},
		"cannot": {
			"echo 'slurmlet: seccomp forbids it' >&2; exit 1", "seccomp forbids it", "cannot be made: seccomp forbids it", "0",
			[]condition{wrote("availablefeatures=big activefeatures=big", 1), never("containers")},
		},
		"says nothing": {
			"sleep 1000", "no answer within 10s", "cannot be made: ", "0", []condition{never("containers")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "slurmlet-container")
			require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n[ $1 = probe ] || exit 2\n"+one.probe+"\n"), 0o755))
			c := start(t, given{role: "slurmd", env: []string{"SLURMLET_JOB_CONTAINERS=" + program}, files: annotated})
			c.await(phase{name: "it is Ready", want: append(one.want, isReady, never(drained), never(deleted), atMost(newStart, 1))})
			var s agent.Status
			require.NoError(t, json.Unmarshal([]byte(c.run(t, "status", "-o", "json").stdout), &s))
			require.Contains(t, s.Node.Containers.Lacks, one.lacks)
			require.Contains(t, c.run(t, "status").stdout, fmt.Sprintf("%-15s%s", "Containers", one.says))
			metrics, _, err := c.get("/metrics")
			require.NoError(t, err)
			require.Contains(t, string(metrics), "\nslurmlet_containers_ready "+one.metric+"\n")
		})
	}
}
