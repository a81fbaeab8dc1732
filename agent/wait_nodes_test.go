package agent

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// TestLimitOfProlog: slurmctld ends a PrologSlurmctld after PrologTimeout (slurmscriptd.c of 26.05), which is
// PrologEpilogTimeout where it is not set.
func TestLimitOfProlog(t *testing.T) {
	assert.Equal(t, noPrologLimit, limitOfProlog(nil))
	for conf, want := range map[string]time.Duration{
		"":                         noPrologLimit,
		"PrologEpilogTimeout=100":  80 * time.Second,
		"PrologTimeout=50":         40 * time.Second,
		"EpilogTimeout=50":         noPrologLimit,
		"PrologTimeout=many":       noPrologLimit,
		"PrologTimeout=65534":      noPrologLimit,
		"PrologEpilogTimeout=7000": 5600 * time.Second,
		"PrologEpilogTimeout=100\nPrologTimeout=500": 400 * time.Second,
		"PrologTimeout=50\nPrologEpilogTimeout=1000": 40 * time.Second,
	} {
		files := fstest.MapFS{"etc/slurm.conf": {Data: []byte("ClusterName=c\nSlurmctldHost=h\n" + conf + "\n")}}
		set, _ := slurmconf.Read(slurmconf.In(files, "/etc"), slurmconf.SlurmConf)
		assert.Equal(t, want, limitOfProlog(set.Conf(slurmconf.SlurmConf)), conf)
	}
}
