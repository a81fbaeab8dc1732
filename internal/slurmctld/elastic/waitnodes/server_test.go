package waitnodes

import (
	"slices"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
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

// TestEndOfWaits: a reconfigure ends those that wait and those that come, until it is over, and for a minute at most.
func TestEndOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{waiting: map[int]chan planner.Outcome{}}
		<-time.After(leavingTime)
		assert.True(t, s.End(), "no job waits")
		s.Allow()

		number, _ := s.waits.Add(planner.Wait{Job: "7", NodeNames: hostlist.Of(slices.Values([]string{"a-0"})).Set(), Until: time.Now().Add(time.Hour)}, time.Now())
		told := make(chan planner.Outcome, 1)
		s.waiting[number] = told
		assert.False(t, s.End())
		assert.Equal(t, planner.Reconfigures, <-told)
		<-time.After(leavingTime)
		assert.True(t, s.End())
		s.noteEnd() // one that came meanwhile
		assert.False(t, s.End())
		assert.True(t, time.Now().Before(s.ending))
		<-time.After(endingTime)
		assert.False(t, time.Now().Before(s.ending), "jobs may wait again, whatever has become of the reconfigure")
	})
	assert.True(t, (*Server)(nil).End(), "there are no programs")
}
