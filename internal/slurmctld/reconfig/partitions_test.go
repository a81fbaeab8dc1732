package reconfig

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// queue is a slurmctld with jobs.
type queue struct {
	reader
	jobs  []slurm.Unfinished
	fault error
	looks int
}

func (q *queue) Unfinished(context.Context) ([]slurm.Unfinished, error) {
	q.looks++
	return q.jobs, q.fault
}

func readConf(t *testing.T, files ...string) *slurmconf.Set {
	dir := t.TempDir()
	for i, name := range []string{"slurm.conf", "partitions.conf"}[:len(files)] {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(files[i]), 0o600))
	}
	set, _ := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
	return set
}

func TestGone(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []string
		gone          []string
	}{
		"nothing":                {[]string{"PartitionName=a\n"}, []string{"PartitionName=a Nodes=ALL\n"}, nil},
		"another order":          {[]string{"PartitionName=a\nPartitionName=b\n"}, []string{"PartitionName=b\nPartitionName=a\n"}, nil},
		"one more":               {[]string{"PartitionName=a\n"}, []string{"PartitionName=a\nPartitionName=b\n"}, nil},
		"one and another":        {[]string{"PartitionName=a\nPartitionName=b\nPartitionName=c\n"}, []string{"PartitionName=b\n"}, []string{"a", "c"}},
		"another name":           {[]string{"PartitionName=a\n"}, []string{"PartitionName=aa\n"}, []string{"a"}},
		"another case":           {[]string{"PartitionName=a\n"}, []string{"PartitionName=A\n"}, []string{"a"}},
		"the key in another one": {[]string{"PartitionName=a\n"}, []string{"partitionname=a\n"}, nil},
		"a comment":              {[]string{"PartitionName=a\n"}, []string{"#PartitionName=a\n"}, []string{"a"}},
		"the defaults":           {[]string{"PartitionName=DEFAULT MaxTime=5\nPartitionName=a\n"}, []string{"PartitionName=a\n"}, nil},
		"into another file":      {[]string{"PartitionName=a\n"}, []string{"Include partitions.conf\n", "PartitionName=a\n"}, nil},
		"with another file":      {[]string{"Include partitions.conf\n", "PartitionName=a\n"}, []string{"ClusterName=c\n"}, []string{"a"}},
		"no names are hostlists": {[]string{"PartitionName=a[1-2]\n"}, []string{"PartitionName=a1\nPartitionName=a2\n"}, []string{"a[1-2]"}},
	} {
		var names []string
		for _, p := range gone(readConf(t, c.before...), readConf(t, c.after...)) {
			names = append(names, p.Name())
		}
		assert.Equal(t, c.gone, names, name)
	}
}

func TestLost(t *testing.T) {
	d := removedPartitions{gone: gone(readConf(t, "PartitionName=a\nPartitionName=b\nPartitionName=c\n"), readConf(t, "PartitionName=c\n"))}
	jobs := []slurm.Unfinished{
		{Name: "1", Partitions: []string{"a"}},
		{Name: "2", Partitions: []string{"c"}},
		{Name: "3", Partitions: []string{"c", "a"}},
		{Name: "4", Partitions: []string{"a", "b"}},
		{Name: "5", Partitions: []string{"aa"}},
	}
	for version, want := range map[string][]string{
		"24.11": {"1", "3", "4"}, "25.05": {"1", "3", "4"}, "25.11": {"1", "4"}, "26.05": {"1", "4"}, "": {"1", "3", "4"},
	} {
		var names []string
		for _, j := range d.lost(jobs, version) {
			names = append(names, j.Name)
		}
		assert.Equal(t, want, names, version)
	}
}

// TestMayGo: what is asked, when, and what is said.
func TestMayGo(t *testing.T) {
	q := &queue{jobs: []slurm.Unfinished{{Name: "7", Partitions: []string{"a"}}, {Name: "8_[0-3]", Partitions: []string{"a", "b"}}, {Name: "9", Partitions: []string{"c"}}}}
	r := opened(t, q, PreflightParse)
	r.build.Store(&build{version: "24.11", plugins: "/nowhere"})
	setOf := func(text string) *confset.Set {
		change("ClusterName=c1\nSlurmctldHost=ctl\n"+text)(t, r)
		return read(t, r)
	}
	require.NoError(t, r.place(setOf("PartitionName=a\nPartitionName=b\nPartitionName=c\n"), ""))
	_, err := r.checkEdit(t.Context(), setOf("PartitionName=a\nPartitionName=b\nPartitionName=c\nPartitionName=d\n"))
	require.NoError(t, err)
	assert.Zero(t, q.looks, "nothing goes, so slurmctld is not asked")

	at := filepath.Join(r.Sources[0], confset.Main) + ": error: PartitionName="
	const helps = ": want it back, with State=DRAIN, until its jobs are over; the edit is tried again every 20s"
	fewer := setOf("PartitionName=c\n")
	r.checkEarly(t.Context())
	<-r.prechecked.Load().over
	assert.Zero(t, q.looks, "jobs come and go after a precheck")
	_, err = r.checkEdit(t.Context(), fewer)
	require.EqualError(t, err, at+"a is not there any more, but 2 jobs are in it (7,8_[0-3]), and slurmctld would end them"+helps+"\n"+
		at+"b is not there any more, but job 8_[0-3] is in it, and slurmctld would end it"+helps)
	require.ErrorAs(t, err, &conf.InUse{})

	parses := q.asked.Load()
	q.fault = slurm.ErrUnreachable
	_, err = r.checkEdit(t.Context(), fewer)
	require.ErrorContains(t, err, at+"b is not there any more, but slurmctld does not say whether there are jobs in it: slurmctld does not answer")
	require.ErrorAs(t, err, &conf.InUse{})
	assert.Equal(t, parses, q.asked.Load(), "the same set is not checked as long as there are jobs")

	q.fault, q.jobs = nil, q.jobs[2:]
	i, err := r.checkEdit(t.Context(), fewer)
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(i.staged, confset.Main))
	require.NoError(t, r.mayGo(t.Context(), r.attempt.known().removed))
	require.NoError(t, r.place(fewer, i.staged))

	left, err := filepath.Glob(r.LiveDir() + ".*")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(left), 2, "the live set and the one before it")
}

// TestMayGoFirst: before slurmctld runs.
func TestMayGoFirst(t *testing.T) {
	for name, c := range map[string]struct {
		good, set string
		cgroup    string
		preflight Preflight
		waits     bool
		anew      bool
	}{
		"the first start":          {set: "PartitionName=a\n"},
		"the partitions stay":      {good: "PartitionName=a\n", set: "PartitionName=a\nPartitionName=b\n"},
		"one goes":                 {good: "PartitionName=a\nPartitionName=b\n", set: "PartitionName=a\n", waits: true},
		"with a port":              {good: "PartitionName=a\nPartitionName=b\n", set: "PartitionName=a\nSlurmctldPort=7000\n", anew: true},
		"slurmd can be restarted":  {good: "PartitionName=a\n", set: "PartitionName=a\n", cgroup: "IgnoreSystemd=yes\n"},
		"nothing is to be checked": {good: "PartitionName=a\n", set: "PartitionName=b\n", preflight: PreflightOff},
	} {
		t.Run(name, func(t *testing.T) {
			r := opened(t, &reader{}, c.preflight)
			r.build.Store(&build{version: "26.05", plugins: "/nowhere"})
			var good *confset.Set
			if c.good != "" {
				change("ClusterName=c1\nSlurmctldHost=ctl\n"+c.good)(t, r)
				good = read(t, r)
			}
			change("ClusterName=c1\nSlurmctldHost=ctl\n"+c.set)(t, r)
			require.NoError(t, os.WriteFile(filepath.Join(r.Sources[0], string(slurmconf.CgroupConf)), []byte(c.cgroup), 0o600))
			i, err := r.checkFirst(t.Context(), read(t, r), good)
			left, globErr := filepath.Glob(r.LiveDir() + ".*")
			require.NoError(t, globErr)
			if c.waits {
				require.ErrorAs(t, err, &conf.InUse{})
				assert.Len(t, left, 1, "nothing of it is left")
				return
			}
			require.NoError(t, err)
			assert.DirExists(t, i.staged)
			assert.Equal(t, c.anew, i.anew)
			assert.Len(t, left, 2)
		})
	}
}
