package savedstate

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFirst(t *testing.T) {
	usual := Ids{}.orDefault()
	for _, c := range []struct {
		name          string
		ids           Ids
		saved, before uint32
		given         []uint32
		first         uint32
		ok            bool
	}{
		{"nothing is known", usual, 0, 0, nil, 1001, true},
		{"nothing since the last save", usual, 500, 0, []uint32{3, 500}, 1500, true},
		{"batch jobs since the last save", usual, 500, 0, []uint32{3, 501, 540}, 1540, true},
		{"many ids since the last save", usual, 500, 0, []uint32{5500}, 15500, true},
		{"very many", usual, 500, 0, []uint32{100500}, 120500, true},
		{"no save is known, and many jobs are there", usual, 0, 0, []uint32{100500}, 101500, true},
		{"the ids have begun anew, and old jobs are there", usual, 500, 0, []uint32{67000000, 510}, 1510, true},
		{"the ids begin anew soon", usual, DefaultMost - 900, 0, []uint32{DefaultMost - 800}, DefaultMost + 200, false},
		{"they have begun anew since the last save", usual, DefaultMost - 10, 0, []uint32{20}, 1020, false},
		{"a range of one's own", Ids{5000, 9000}, 5100, 0, []uint32{5200, 8999}, 6200, true},
		{"one from before the crash before", usual, 500, 1500, []uint32{501}, 2500, true},
		{"one that is over", usual, 500, 400, []uint32{501}, 1501, true},
		{"an old job with a low id", usual, 60000000, 0, []uint32{5}, 60001000, true},
		{"an id out of the range", Ids{5000, 9000}, 5100, 0, []uint32{1, 9000}, 6100, true},
	} {
		first, ok := c.ids.first(c.saved, c.before, c.given)
		assert.Equal(t, c.ok, ok, c.name)
		assert.Equal(t, c.first, first, c.name)
	}
}

// TestFirstIsAfterAllThatWereGiven: whatever was given, and no far jump by what is old.
func TestFirstIsAfterAllThatWereGiven(t *testing.T) {
	ids := Ids{1, 2000000}
	for saved := uint32(1); saved < ids.Most; saved += 3701 {
		for ahead := uint32(0); ahead < 3000; ahead += 61 {
			if saved+ahead >= ids.Most {
				continue
			}
			first, ok := ids.first(saved, 0, []uint32{saved + ahead, 1})
			if ok {
				require.Greater(t, first, saved+ahead)
				require.Less(t, first, ids.Most)
			} else {
				require.Greater(t, saved, ids.Most-30000)
			}
		}
	}
}

func TestHeader(t *testing.T) {
	// Of 24.11.5: the last id is 504.
	real := []byte("\x00\x00\x00\x11PROTOCOL_VERSION\x00\x2a\x00\x00\x00\x00\x00\x6b\x09\xaa\xf1\x00\x00\x01\xf8\x00\x00")
	h, err := parseHeader(bytes.NewReader(real))
	require.NoError(t, err)
	assert.Equal(t, header{at: time.Unix(0x6b09aaf1, 0), sequence: 504, protocol: 42}, h)
	for _, bad := range [][]byte{nil, real[:30], bytes.ReplaceAll(real, []byte("VERSION"), []byte("version")), append([]byte{1}, real...)} {
		_, err := parseHeader(bytes.NewReader(bad))
		assert.Error(t, err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x11PROTOCOL_VERSION\x00\x2a\x00\x00\x00\x00\x00\x6b\x09\xaa\xf1\x00\x00\x01\xf8\x00\x00"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseHeader(bytes.NewReader(text)) })
}

func TestHeard(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		line string
		want heardJob
	}{
		{"_slurm_rpc_submit_batch_job: JobId=2 InitPrio=4294901759 usec=365", heardJob{id: 2, name: "2", acknowledged: now, batch: true}},
		{"_slurm_rpc_submit_batch_job: JobId=2 SLUID=s1NQ InitPrio=1 usec=3", heardJob{id: 2, name: "2", acknowledged: now, batch: true}},
		{"sched: _slurm_rpc_allocate_resources JobId=4 NodeList=(null) usec=3", heardJob{id: 4, name: "4", acknowledged: now}},
		{"sched: _slurm_rpc_allocate_resources JobId=4 NodeList=n1 usec=3", heardJob{id: 4, name: "4", acknowledged: now, started: now, nodes: "n1"}},
		{"sched: Allocate JobId=7_2(9) NodeList=n[1-2] #CPUs=2 Partition=all", heardJob{id: 9, name: "7_2", started: now, nodes: "n[1-2]"}},
		{"sched/backfill: _start_job: Started JobId=8 in all on n2", heardJob{id: 8, name: "8", started: now, nodes: "n2"}},
		{"_job_complete: JobId=8 done", heardJob{}},
		{"error: job named sched: Allocate JobId=66000000 NodeList=x", heardJob{}},
		{"sched: Allocate JobId= NodeList=x", heardJob{}},
		{"sched: Allocate JobId=99999999999999 NodeList=x", heardJob{}},
	} {
		var h Heard
		h.Line(c.line, now)
		jobs, _ := h.since(now)
		if c.want.id == 0 {
			assert.Empty(t, jobs, c.line)
			continue
		}
		assert.Equal(t, []heardJob{c.want}, jobs, c.line)
	}
}

// TestHeardIsBounded: ten times as many jobs as are remembered.
func TestHeardIsBounded(t *testing.T) {
	var h Heard
	for id := range 10 * mostHeard {
		h.Line("_slurm_rpc_submit_batch_job: JobId="+strconv.Itoa(id+1)+" InitPrio=1", time.Unix(int64(id/100), 0))
	}
	jobs, highest := h.since(time.Time{})
	assert.LessOrEqual(t, len(jobs), mostHeard)
	assert.EqualValues(t, 10*mostHeard, highest)
	h.Line("_slurm_rpc_submit_batch_job: JobId=5 InitPrio=1", time.Unix(1, 0))
	_, highest = h.since(time.Time{})
	assert.EqualValues(t, 10*mostHeard, highest, "an older job's line came late")
}
