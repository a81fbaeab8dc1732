package slurmctld

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// TestPlaces: a metric has the place of a refusal, and none of its words.
func TestPlaces(t *testing.T) {
	for why, want := range map[string][]string{
		"/etc/slurm/slurm.conf:4: error: no":          {"slurm.conf", "4"},
		"/etc/slurm/slurm.conf:4:12: error: no":       {"slurm.conf", "4"},
		"/etc/slurm/slurm.conf: the file is empty":    {"slurm.conf", ""},
		"/etc/slurm/parts/a.conf:7: no":               {"parts/a.conf", "7"},
		"/etc/slurm/a:b.conf:7: no":                   {"a:b.conf", "7"},
		"/etc/slurm/slurm.conf":                       nil,
		"/etc/slurmdbd.conf:7: no":                    nil,
		"cannot find slurm.conf in /etc/slurm: no":    nil,
		"slurmctld: /etc/slurm/slurm.conf:4: refused": nil,
	} {
		var have []string
		for _, s := range places(&reconfig.Status{Sources: []string{"/etc/slurm"}, Refused: &reconfig.Refusal{Why: []string{why}}}) {
			have = s.Labels
		}
		assert.Equal(t, want, have, why)
	}
}
