// Package userfiles counts the files that users' jobs have in the directories that all users share. It drains the node
// when they fill the pod's disk, and removes what is left of users without a job where that is wanted.
package userfiles

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/tempdirs"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// Options are what there is to know of the node.
type Options struct {
	// Node is its name in Slurm.
	Node string
	// Root is where the machine's file system begins, Places are its directories of several users.
	Root   string
	Places tempdirs.Places
	// Booted is the container's start.
	Booted time.Time
	Spool  *spool.Dir
	// SpoolDir is the directory below Root.
	SpoolDir string
	// Limit is that of the pod's disk in bytes, 0 for none.
	Limit     int64
	Leftovers Leftovers
	Slurm     *slurm.Questions
	// State is the agent's, and when it came into it.
	State func() (supervisor.Phase, time.Time)
	// Drains drain the node while its disk is nearly full.
	Drains *drains.Drains
	Log    func(level slog.Level, text string, attrs ...slog.Attr)
}

// Files knows what the files take that users' jobs have in the directories that all users share. It looks when a
// step has ended, and where the pod's disk has a limit also now and then while steps run.
type Files struct {
	Options
	wake chan struct{}

	mu     sync.Mutex
	status *Status  // nil before the first look
	ended  []string // jobs with steps that have ended since the last look
	// removed is how many bytes of leftovers were removed.
	removed int64

	disk diskWatch
	// shared are the directories of the last look, which the pod's memory or disk has.
	shared []tempdirs.Dir
	// jobs are those that slurmctld was asked for, by their numbers.
	jobs map[string]slurm.Job
	// owners are the users whose jobs have run here, with the numbers of these jobs.
	owners map[int][]string
}

// Status is what users' files take, when somebody looked last.
type Status struct {
	At time.Time `json:"at"`
	// DiskUsed is what counts against SLURMLET_STORAGE_LIMIT, as far as the agent sees it, in bytes; DiskLimit is 0
	// where there is none. DiskFull is why the node is drained.
	DiskUsed  int64  `json:"disk_used"`
	DiskLimit int64  `json:"disk_limit"`
	DiskFull  string `json:"disk_full,omitempty"`
	// LeftMemory and LeftDisk are the files of users without a process here, in bytes; LeftBy names these users.
	LeftMemory int64    `json:"left_memory"`
	LeftDisk   int64    `json:"left_disk"`
	LeftBy     []string `json:"left_by,omitempty"`
	// Removed is how many bytes of such files the agent has removed (SLURMLET_LEFTOVERS=remove).
	Removed int64 `json:"removed,omitempty"`
	// Fault says why the last look did not count all files.
	Fault string `json:"fault,omitempty"`
}

const (
	// filesCalm is how long steps are left to end together, and filesLimit how long a look may take.
	filesCalm  = 500 * time.Millisecond
	filesLimit = time.Minute
	// filesEvery is how often the disk is looked at while steps run, or the node is drained for it. After a look the
	// agent waits for at least filesShare times as long as that took.
	filesEvery = 10 * time.Second
	filesShare = 20
	// mostJobs bounds how many jobs slurmctld is asked for after one look.
	mostJobs = 64
)

// New looks at nothing yet.
func New(o Options) *Files {
	f := &Files{Options: o, wake: make(chan struct{}, 1), jobs: map[string]slurm.Job{}, owners: map[int][]string{}}
	f.disk = diskWatch{limit: o.Limit, before: map[int]int64{}, by: map[int]string{}}
	if f.disk.limit > 0 {
		f.look() // a node may be drained since an earlier life
	}
	return f
}

// look has the files looked at soon.
func (f *Files) look() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// StepBegins takes each step's socket, and StepEnds its end.
func (f *Files) StepBegins() {
	if f.disk.limit > 0 {
		f.look()
	}
}

// StepEnds takes the end of a step.
func (f *Files) StepEnds(step string) {
	f.mu.Lock()
	if job, _, _ := strings.Cut(step, "."); !slices.Contains(f.ended, job) && len(f.ended) < mostJobs {
		f.ended = append(f.ended, job)
	}
	f.mu.Unlock()
	f.look()
}

// Run looks until ctx ends.
func (f *Files) Run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-again:
		}
		if !pause(ctx, filesCalm) {
			return
		}
		began := time.Now()
		wait := f.once(ctx)
		again = nil
		if wait > 0 {
			again = time.After(wait)
		}
		if !pause(ctx, filesShare*time.Since(began)) {
			return
		}
	}
}

// pause returns false when ctx has ended.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// once looks, and returns when to look again; 0: when a step ends.
func (f *Files) once(ctx context.Context) time.Duration {
	if state, _ := f.State(); state == supervisor.Stopping || state == supervisor.Exited {
		return 0
	}
	f.mu.Lock()
	ended := f.ended
	f.ended = nil
	f.mu.Unlock()
	here := spool.Jobs(f.Spool.Steps())
	began := time.Now()
	counting, cancel := context.WithTimeout(ctx, filesLimit)
	defer cancel()
	shared, all, err := f.count(counting)
	s := &Status{At: time.Now(), DiskLimit: f.disk.limit}
	if err != nil {
		s.Fault = err.Error()
	}
	f.addLeft(s, shared)
	settled := true
	if f.disk.limit > 0 {
		settled = f.followDisk(ctx, s, all, slices.Concat(here, ended))
	}
	again := f.Leftovers == LeftoversRemove && f.removeLeft(ctx, ended, began)
	f.mu.Lock()
	s.Removed = f.removed
	f.status = s
	f.mu.Unlock()
	if f.disk.limit > 0 && (len(here) > 0 || f.disk.full || !settled) {
		return filesEvery
	}
	if again {
		return leftAgain
	}
	return 0
}

// count returns what users hold in the directories that they share, and in all that counts as the pod's disk.
func (f *Files) count(ctx context.Context) (shared, all []tempdirs.Holding, err error) {
	text, err := os.ReadFile(filepath.Join(f.Root, "proc/self/mountinfo"))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot find the directories of users: %w", err)
	}
	mounts, root := string(text), f.Root
	paths := f.Places.Existing(root)
	dirs := slices.DeleteFunc(tempdirs.Locate(mounts, paths), func(d tempdirs.Dir) bool { return d.Kind == tempdirs.Elsewhere })
	f.shared = dirs
	if shared, err = tempdirs.Usage(ctx, root, dirs, f.Booted); err != nil || f.disk.limit == 0 {
		return shared, nil, err
	}
	more := tempdirs.Locate(mounts, tempdirs.Unique(slices.Concat(paths, []string{f.SpoolDir}, tempdirs.EmptyDirs(mounts))...))
	more = slices.DeleteFunc(more, func(d tempdirs.Dir) bool { return d.Kind != tempdirs.Disk || slices.Contains(dirs, d) })
	all, err = tempdirs.Usage(ctx, root, more, f.Booted)
	return shared, slices.Concat(all,
		slices.DeleteFunc(slices.Clone(shared), func(h tempdirs.Holding) bool { return h.Dir.Kind != tempdirs.Disk })), err
}

// addLeft adds what users hold who have no process here.
func (f *Files) addLeft(s *Status, shared []tempdirs.Holding) {
	present := usersOf(f.Root)
	left := map[int]int64{}
	for _, h := range shared {
		if present[h.UID] || h.UID == 0 || h.UID == os.Getuid() {
			continue
		}
		switch h.Dir.Kind {
		case tempdirs.Memory:
			s.LeftMemory += h.Bytes
		case tempdirs.Disk:
			s.LeftDisk += h.Bytes
		default:
			continue
		}
		left[h.UID] += h.Bytes
	}
	for uid, bytes := range left {
		s.LeftBy = append(s.LeftBy, fmt.Sprintf("%s (%d MiB)", f.name(uid), bytes/mib))
	}
	slices.Sort(s.LeftBy)
}

// usersOf are the real users of all processes in the container.
func usersOf(root string) map[int]bool {
	users := map[int]bool{}
	entries, _ := os.ReadDir(filepath.Join(root, "proc"))
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, "proc", e.Name(), "status"))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, "Uid:"); found {
				uid, _ := strconv.Atoi(strings.Fields(value)[0])
				users[uid] = true
			}
		}
	}
	return users
}

// name is a user's, as slurmctld has it.
func (f *Files) name(uid int) string {
	for _, job := range f.jobs {
		if job.UID == uid && job.User != "" {
			return job.User
		}
	}
	return "uid " + strconv.Itoa(uid)
}

// meet asks slurmctld for jobs that are not known yet.
func (f *Files) meet(ctx context.Context, ids []string) {
	if len(f.jobs) > 16*mostJobs {
		clear(f.jobs)
	}
	asked := 0
	for _, id := range ids {
		if _, known := f.jobs[id]; known || id == "" || asked == mostJobs {
			continue
		}
		asked++
		question, cancel := context.WithTimeout(ctx, f.Slurm.Limit())
		job, err := f.Slurm.Job(question, id)
		cancel()
		if err != nil {
			f.Log(slog.LevelDebug, "cannot find out whose job "+id+" is", slog.Any("error", err))
			return
		}
		if job != nil {
			f.jobs[id] = *job
		}
	}
}

// Status is nil before the first look.
func (f *Files) Status() *Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Rows are for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	if s.DiskLimit > 0 {
		row("Disk", "%s", cmp.Or(s.DiskFull, fmt.Sprintf("%d of %d MiB used", s.DiskUsed/mib, s.DiskLimit/mib)))
	}
	if len(s.LeftBy) > 0 {
		row("Left files", "%d MiB of memory and %d MiB of disk, of users without a process here: %s",
			s.LeftMemory/mib, s.LeftDisk/mib, strings.Join(s.LeftBy, ", "))
	}
	if s.Fault != "" {
		row("Fault", "users' files are counted in part: %s", s.Fault)
	}
}
