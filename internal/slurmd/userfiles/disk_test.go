package userfiles

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/pod/tempdirs"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

func newDiskWatch() diskWatch {
	return diskWatch{limit: 1000 * mib, before: map[int]int64{}, by: map[int]string{}}
}

// TestDiskIsFull: the node is drained at four fifths, and takes jobs again below seven tenths.
func TestDiskIsFull(t *testing.T) {
	d := newDiskWatch()
	for _, c := range []struct {
		used int64
		full bool
	}{{799, false}, {800, true}, {750, true}, {700, true}, {699, false}, {750, false}, {2000, true}} {
		d.judge(c.used * mib)
		assert.Equal(t, c.full, d.full, c.used)
	}
}

// TestDiskGrows: a user whose files have grown by a twentieth of the limit is asked about, and root never.
func TestDiskGrows(t *testing.T) {
	d := newDiskWatch()
	grown := func(alice, root int64) []int { return d.grown(map[int]int64{1000: alice * mib, 0: root * mib}) }
	assert.Empty(t, grown(49, 500))
	assert.Equal(t, []int{1000}, grown(60, 500), "slowly counts, too")
	assert.Empty(t, grown(61, 500))
	assert.Empty(t, grown(0, 500))
	assert.Equal(t, []int{1000}, grown(55, 500), "after the files were removed")
}

func TestDiskReason(t *testing.T) {
	d := newDiskWatch()
	name := func(uid int) string { return "uid " + strconv.Itoa(uid) }
	holding := func(uid int, dir string, mebibytes int64) tempdirs.Holding {
		return tempdirs.Holding{UID: uid, Dir: tempdirs.Dir{Path: dir}, Bytes: mebibytes * mib}
	}
	all := []tempdirs.Holding{holding(1000, "/tmp", 500), holding(0, "/var/spool/slurmd", 600), holding(1001, "/tmp", 550), holding(1000, "/var/tmp", 100)}
	assert.Equal(t, "900 of 1000 MiB used, 600 MiB by uid 1000 in /tmp", d.reason(900*mib, all, name))
	d.by[1000] = "job 7 of alice"
	assert.Equal(t, "900 of 1000 MiB used, 600 MiB by job 7 of alice in /tmp", d.reason(900*mib, all, name))
	assert.Equal(t, "900 of 1000 MiB used", d.reason(900*mib, all[1:2], name))
}

// TestJobsOf names the user's jobs among those that were here.
func TestJobsOf(t *testing.T) {
	f := &Files{jobs: map[string]slurm.Job{"7": {ID: 7, User: "alice", UID: 1000}, "8": {ID: 8, User: "bob", UID: 1001}, "9": {ID: 9, User: "alice", UID: 1000}}}
	assert.Equal(t, "job 7 of alice", f.jobsOf(1000, []string{"7", "8", "7"}))
	assert.Equal(t, "jobs 7, 9 of alice", f.jobsOf(1000, []string{"7", "8", "9"}))
	assert.Empty(t, f.jobsOf(1002, []string{"7", "8"}))
	assert.Equal(t, "alice", f.name(1000))
	assert.Equal(t, "uid 1002", f.name(1002))
}
