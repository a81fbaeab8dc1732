package reconfig

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

// Reloader owns slurmctld's configuration. Its methods are safe for concurrent use.
type Reloader struct {
	Options
	// liveSet is what the daemon reads, goodSet is what the next container can fall back on.
	liveSet, goodSet confset.Store

	// seen is the last state that Report was given.
	seen    atomic.Pointer[view]
	attempt attempt
	// requests counts the calls of TryNow.
	requests atomic.Int64
	// reading is held from a look at the sources until it is posted: the last one that is posted is the
	// last one that was made.
	reading sync.Mutex

	// prefetched and prechecked were begun with an edit, nil when they were used.
	prefetched atomic.Pointer[nodeStarts]
	prechecked atomic.Pointer[precheck]
	// held: slurmctld starts no jobs until the reconfigure is over.
	held atomic.Bool
	// accounts lets accounts be changed again, nil while they may be.
	accounts atomic.Pointer[func()]

	keeping sync.Mutex
	// unkept is why the last good set could not be kept, empty when it was.
	unkept atomic.Pointer[string]
	// notes are on the live configuration; announcing is held while it is read.
	notes atomic.Pointer[notes]
	// unassociated is a warning about the edit that is tried or live, nil for none.
	unassociated atomic.Pointer[string]
	announcing   sync.Mutex
	// feeding is held while the live set changes together with what the Feed says of it.
	feeding sync.Mutex
	// history is what has become of edits; nobody changes a list that is there.
	history atomic.Pointer[[]Edit]
	build   atomic.Pointer[build]
}

// attempt is what the actions of one reload leave for each other. The lock is for an action that
// is still under way when the next reload begins.
type attempt struct {
	lock sync.Mutex
	facts
}

type facts struct {
	baseline
	// addresses are of the nodes that had not followed when slurmctld was asked last.
	addresses map[string]string
	// removed and changes are of the set that was checked last.
	removed removedPartitions
	changes []string
}

func (a *attempt) known() facts {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.facts
}

func (a *attempt) learn(change func(*facts)) {
	a.lock.Lock()
	defer a.lock.Unlock()
	change(&a.facts)
}

// LivePath is the slurm.conf that slurmctld and its scontrol read, in a SLURMLET_RUN_DIR.
func LivePath(runDir string) string { return filepath.Join(runDir, "conf", confset.Main) }

// LiveDir is the directory of the live set.
func (r *Reloader) LiveDir() string { return r.liveSet.Current() }

// livePlace is another for each set that is put in place.
func (r *Reloader) livePlace() string {
	target, _ := os.Readlink(r.liveSet.Current())
	return target
}
