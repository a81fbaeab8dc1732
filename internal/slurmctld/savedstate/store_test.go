package savedstate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// state is a StateSaveLocation.
type state struct {
	*testing.T
	dir string
}

func newState(t *testing.T) state { return state{t, t.TempDir()} }

func (s state) store() *Store {
	return NewStore(Options{UID: os.Geteuid(), GID: os.Getegid(), Self: s.Name(), Held: func(string) {}, Log: func(_ slog.Level, text string, attrs ...slog.Attr) { s.Log(text, attrs) }})
}

// save is slurmctld's.
func (s state) save(at time.Time, last uint32) { s.saveAs(0x2a00, at, last) }

func (s state) saveAs(protocol uint16, at time.Time, last uint32) {
	text := append(binary.BigEndian.AppendUint32(nil, uint32(len(jobStateVersion))), jobStateVersion...)
	text = binary.BigEndian.AppendUint16(text, protocol)
	text = binary.BigEndian.AppendUint64(text, uint64(at.Unix()))
	text = binary.BigEndian.AppendUint32(text, last)
	require.NoError(s, os.WriteFile(filepath.Join(s.dir, "job_state"), append(text, "the jobs"...), 0o600))
}

// submit is what slurmctld leaves of a batch job.
func (s state) submit(id int, environment ...string) string {
	dir := filepath.Join(s.dir, "hash."+strconv.Itoa(id%10), "job."+strconv.Itoa(id))
	require.NoError(s, os.MkdirAll(dir, 0o700))
	require.NoError(s, os.WriteFile(filepath.Join(dir, "script"), []byte(fmt.Sprintf("#!/bin/sh\necho %d\n\x00", id)), 0o700))
	text := binary.NativeEndian.AppendUint32(nil, uint32(len(environment)))
	for _, one := range environment {
		text = append(text, one+"\x00"...)
	}
	require.NoError(s, os.WriteFile(filepath.Join(dir, "environment"), text, 0o600))
	return dir
}

func (s state) prepare(store *Store) uint32 {
	first, err := store.Prepare(s.Context(), s.dir, "24.11", 0, 0)
	require.NoError(s, err)
	return first
}

func known(ids ...string) States {
	return func([]string) (map[string]string, error) {
		states := map[string]string{}
		for _, id := range ids {
			states[id] = "PENDING"
		}
		return states, nil
	}
}

// TestInOrder: a slurmctld that has ended in order gives the next id, and nothing is kept.
func TestInOrder(t *testing.T) {
	s := newState(t)
	store := s.store()
	assert.Zero(t, s.prepare(store), "a new cluster")
	s.save(time.Now(), 7)
	s.submit(7)
	require.NoError(t, store.Saved())
	assert.Zero(t, s.prepare(store))
	lost, again, err := store.Judge(nil)
	require.NoError(t, err)
	assert.Empty(t, append(lost, again...))
	assert.NotZero(t, s.prepare(store), "one start, one end in order")
}

// TestCrash: what came after the last save is lost. Its script can be submitted again.
func TestCrash(t *testing.T) {
	s := newState(t)
	store := s.store()
	s.prepare(store)
	s.submit(6)
	s.save(time.Now(), 7)
	store.Heard.Line("_slurm_rpc_submit_batch_job: JobId=8 InitPrio=1", time.Now())
	purged := s.submit(8, "HOME=/home/alice", "USER=alice", "SECRET=hush", "SLURM_JOB_NAME=sim\nx", "SLURM_SUBMIT_DIR=/data")
	store.Heard.Line("sched: _slurm_rpc_allocate_resources JobId=9 NodeList=n1 usec=1", time.Now())
	store.Heard.Line("sched: Allocate JobId=6 NodeList=n2 #CPUs=1", time.Now().Add(time.Second))
	assert.EqualValues(t, 1009, s.prepare(store))
	assert.EqualValues(t, 1009, store.FirstID())
	require.NoError(t, os.RemoveAll(purged)) // slurmctld does that
	_, _, err := store.Judge(func([]string) (map[string]string, error) { return nil, errors.New("no answer") })
	require.Error(t, err)
	lost, again, err := store.Judge(known("6"))
	require.NoError(t, err)
	require.Len(t, lost, 2)
	assert.Equal(t, []any{uint32(8), Batch, "alice", "sim?x", "/data"}, []any{lost[0].ID, lost[0].Kind, lost[0].User, lost[0].JobName, lost[0].Directory})
	assert.Equal(t, []any{uint32(9), Allocation, "n1", ""}, []any{lost[1].ID, lost[1].Kind, lost[1].Nodes, lost[1].Script})
	require.Len(t, again, 1)
	assert.Equal(t, []any{"6", "n2"}, []any{again[0].Name, again[0].Nodes})
	script, err := os.ReadFile(lost[0].Script)
	require.NoError(t, err)
	assert.Equal(t, "#!/bin/sh\necho 8\n", string(script), "sbatch takes no NUL")
	info, err := os.Stat(lost[0].Script)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.NoDirExists(t, filepath.Join(store.LostDir(), "6"))
	job, err := os.ReadFile(filepath.Join(store.LostDir(), "8", jobFile))
	require.NoError(t, err)
	assert.NotContains(t, string(job), "hush")

	// The next container tells it, until somebody removes it.
	require.NoError(t, store.file.Close())
	next := s.store()
	s.prepare(next)
	lost, _ = next.Lost()
	assert.Len(t, lost, 2)
	require.NoError(t, os.RemoveAll(filepath.Join(next.LostDir(), "8")))
	require.NoError(t, next.Reread())
	lost, _ = next.Lost()
	assert.Len(t, lost, 1)
}

// TestFirstIDStays: as long as slurmctld's state does not say it, also when it crashes once more.
func TestFirstIDStays(t *testing.T) {
	s := newState(t)
	store := s.store()
	s.save(time.Now(), 100)
	first := s.prepare(store)
	assert.EqualValues(t, 1100, first)
	require.NoError(t, store.Saved())
	s.save(time.Now(), 100)
	assert.Equal(t, first, s.prepare(store), "no job has come since")
	assert.EqualValues(t, 2100, s.prepare(store), "srun may have got ids that nobody knows of")
	s.save(time.Now(), 2101)
	assert.Zero(t, store.FirstID())
	s.save(time.Now(), 3)
	assert.Zero(t, store.FirstID(), "the ids have begun anew")
}

// TestAgentsAreKeptApart: another agent waits for the end of the first, and says whose.
func TestAgentsAreKeptApart(t *testing.T) {
	s := newState(t)
	one := s.store()
	one.Self = "slurmctld-0, process 1"
	s.prepare(one)
	two := s.store()
	held, prepared := make(chan string, 1), make(chan error, 1)
	two.Held = func(by string) { held <- by }
	go func() {
		_, err := two.Prepare(s.Context(), s.dir, "24.11", 0, 0)
		prepared <- err
	}()
	assert.Equal(t, "slurmctld-0, process 1", <-held)
	three := s.store()
	ctx, cancel := context.WithCancel(t.Context())
	three.Held = func(string) { cancel() }
	_, err := three.Prepare(ctx, s.dir, "24.11", 0, 0)
	require.ErrorIs(t, err, context.Canceled, "SIGTERM")
	select {
	case err := <-prepared:
		t.Fatalf("both have it: %v", err)
	default:
	}
	require.NoError(t, one.file.Close()) // as the kernel does
	require.NoError(t, <-prepared)
	s.prepare(two) // its own lock keeps nobody from a second start
}

// TestKeptIsBounded: what is old goes.
func TestKeptIsBounded(t *testing.T) {
	s := newState(t)
	store := s.store()
	s.prepare(store)
	root, err := os.OpenRoot(s.dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, store.record(root, Job{ID: 1, Found: time.Now().Add(-2 * mostAge)}))
	require.NoError(t, store.record(root, Job{ID: 2, Found: time.Now()}))
	require.NoError(t, store.Reread())
	lost, _ := store.Lost()
	require.Len(t, lost, 1)
	assert.EqualValues(t, 2, lost[0].ID)
	assert.NoDirExists(t, filepath.Join(store.LostDir(), "1"))
}

// TestTheNextAgentKnows: the container ends with slurmctld. What the agent has heard is not lost with it.
func TestTheNextAgentKnows(t *testing.T) {
	s := newState(t)
	store := s.store()
	s.prepare(store)
	s.save(time.Now(), 7)
	store.Heard.Line("sched: _slurm_rpc_allocate_resources JobId=9 NodeList=n1 usec=1", time.Now())
	require.NoError(t, store.Crashed())
	require.NoError(t, store.file.Close())
	next := s.store()
	assert.EqualValues(t, 1009, s.prepare(next))
	lost, _, err := next.Judge(known())
	require.NoError(t, err)
	require.Len(t, lost, 1)
	assert.Equal(t, []any{uint32(9), Allocation, "n1"}, []any{lost[0].ID, lost[0].Kind, lost[0].Nodes})
}
