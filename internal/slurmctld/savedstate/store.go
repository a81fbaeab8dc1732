package savedstate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options are a Store's surroundings.
type Options struct {
	// UID and GID are slurmctld's user.
	UID, GID int
	// Upgrade is leave to convert what an older Slurm has saved.
	Upgrade bool
	// Self is what another agent reads that waits for this one's end.
	Self string
	// Held is called with who has the lock, when this agent begins to wait for it.
	Held func(by string)
	Log  func(slog.Level, string, ...slog.Attr)
}

// Store looks after one StateSaveLocation at a time. Its methods are safe for concurrent use.
type Store struct {
	Options
	Heard Heard

	lock sync.Mutex
	dir  string
	file *os.File // the lock, nil where there is none
	ids  Ids
	// crash is what there is to judge, nil when nothing is.
	crash *crash
	// lost are the jobs that crashes have lost, again those that run again. The lists are never changed in place.
	lost, again []Job
	// empty: slurmctld was started last with no state at all.
	empty bool
	// unlocked is why no lock keeps other slurmctlds off, empty when one does.
	unlocked string
}

// crash is an end of slurmctld that was not in order.
type crash struct {
	// saved is when slurmctld had saved its state last.
	saved time.Time
	jobs  []heardJob
}

// NewStore makes a Store.
func NewStore(o Options) *Store { return &Store{Options: o} }

const (
	savedName = dirName + "/saved"
	firstName = dirName + "/first-id"
	lostName  = dirName + "/lost"
	heardName = dirName + "/heard"
)

// open opens the directory of slurmctld's state, with the agent's directory in it.
func (s *Store) open(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	err = errors.Join(s.give(root, "."), s.mkdir(root, dirName, 0o755))
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return root, nil
}

func (s *Store) mkdir(root *os.Root, name string, mode fs.FileMode) error {
	if err := root.Mkdir(name, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return s.give(root, name)
}

// give gives slurmctld's user what this agent has just made.
func (s *Store) give(root *os.Root, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if name == "." {
		if entries, err := fs.ReadDir(root.FS(), "."); err != nil || len(entries) > 0 {
			return err // it was there before
		}
	}
	return root.Lchown(name, s.UID, s.GID)
}

// Prepare makes the state in dir ready for slurmctld's next start: it waits until no other agent has the directory,
// and after a crash it keeps the scripts that slurmctld would delete. It returns the id from which on slurmctld may
// give ids, 0 where slurmctld knows it by itself. firstID and mostID are slurm.conf's FirstJobId and MaxJobId, 0 where it does not set
// them, and line is slurmctld's release line: "26.05".
func (s *Store) Prepare(ctx context.Context, dir, line string, firstID, mostID uint32) (first uint32, err error) {
	root, err := s.open(dir)
	if err != nil {
		return 0, fmt.Errorf("cannot use StateSaveLocation %s: %w", dir, err)
	}
	defer root.Close()
	if err := s.takeLock(ctx, root, dir); err != nil {
		return 0, err
	}
	if err := s.admit(root, dir, line); err != nil {
		return 0, err
	}
	ids := Ids{firstID, mostID}.orDefault()
	s.lock.Lock()
	s.ids, s.empty = ids, isEmpty(root)
	s.lock.Unlock()
	s.load(root)
	_, err = root.Lstat(savedName)
	inOrder := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cannot find out how slurmctld has ended: %w", err)
	}
	last, headerErr := readHeader(root)
	jobs, err := jobDirs(root)
	if err != nil {
		return 0, fmt.Errorf("cannot list the jobs of %s: %w", dir, err)
	}
	fresh := errors.Is(headerErr, fs.ErrNotExist) && len(jobs) == 0
	if !inOrder && !fresh {
		if headerErr != nil {
			s.Log(slog.LevelWarn, "cannot find out when slurmctld has saved its jobs", slog.Any("error", headerErr))
		}
		if err := s.secure(root, last, jobs, ids); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(ignoreMissing(root.Remove(savedName)), syncDir(root, dirName)); err != nil {
		return 0, fmt.Errorf("cannot note that slurmctld is started: %w", err)
	}
	return s.pending(root, last, ids), nil
}

// slurmctldFiles are there once a slurmctld has served (24.11.5 and 26.05.5).
var slurmctldFiles = []string{"clustername", "job_state", "job_state.old", "node_state", "node_state.old"}

func isEmpty(root *os.Root) bool {
	return !slices.ContainsFunc(slurmctldFiles, func(name string) bool {
		_, err := root.Lstat(name)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// Empty says whether slurmctld was started last with no state at all, as in a new cluster.
func (s *Store) Empty() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.empty
}

// secure does after a crash what must be done before slurmctld starts.
func (s *Store) secure(root *os.Root, last header, jobs []jobDir, ids Ids) error {
	s.Heard.learn(root)
	heard, highest := s.Heard.since(last.at.Add(-slack))
	given := make([]uint32, 0, len(jobs)+2)
	for _, j := range jobs {
		given = append(given, j.id)
	}
	given = append(given, highest)
	kept, left := s.keep(root, jobs, last.at)
	first, ok := ids.first(last.sequence, readFirst(root), given)
	attrs := []slog.Attr{slog.Time("saved", last.at), slog.Uint64("last_id_saved", uint64(last.sequence)), slog.Int("scripts_kept", kept)}
	if left > 0 {
		attrs = append(attrs, slog.Int("scripts_not_kept", left))
	}
	if ok {
		attrs = append(attrs, slog.Uint64("first_id", uint64(first)))
		if err := s.write(root, firstName, strconv.FormatUint(uint64(first), 10)+"\n"); err != nil {
			return fmt.Errorf("cannot keep slurmctld from giving ids twice: %w", err)
		}
	} else {
		s.Log(slog.LevelWarn, "ids begin anew soon (MaxJobId): slurmctld may give ids twice", slog.Uint64("max_job_id", uint64(ids.Most)))
	}
	s.Log(slog.LevelWarn, "slurmctld has not ended in order, and may have forgotten the jobs since its last save", attrs...)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.crash = &crash{saved: last.at, jobs: heard}
	return nil
}

// slack is for jobs that slurmctld acknowledged while it saved, and for a time without fractions of a second.
const slack = 2 * time.Second

// pending is the id from which on slurmctld may give ids, as long as its saved state does not say it: 0 then.
func (s *Store) pending(root *os.Root, last header, ids Ids) uint32 {
	first := readFirst(root)
	if first == 0 {
		return 0
	}
	if _, after := ids.since(last.sequence, first); after {
		return first
	}
	_ = root.Remove(firstName) // it says nothing new
	return 0
}

// FirstID is Prepare's answer as it is now: slurmctld's state says more with each save.
func (s *Store) FirstID() uint32 {
	s.lock.Lock()
	dir, ids := s.dir, s.ids
	s.lock.Unlock()
	if dir == "" {
		return 0
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0
	}
	defer root.Close()
	last, _ := readHeader(root) // without it, the id stays
	return s.pending(root, last, ids)
}

func readFirst(root *os.Root) uint32 {
	text, err := root.ReadFile(firstName)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32) // what is no number is none
	return uint32(n)
}

// Saved notes that slurmctld has ended in order, and has saved its state.
func (s *Store) Saved() error {
	return s.writeHere(savedName, time.Now().UTC().Format(time.RFC3339)+"\n")
}

// writeHere writes a small file of the state that was prepared last, and nothing where there is none.
func (s *Store) writeHere(name, text string) error {
	s.lock.Lock()
	dir := s.dir
	s.lock.Unlock()
	if dir == "" {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return s.write(root, name, text)
}

// write replaces a small file at once, and for good.
func (s *Store) write(root *os.Root, name, text string) error {
	return s.writeAll(root, name, strings.NewReader(text))
}

func (s *Store) writeAll(root *os.Root, name string, from io.Reader) error {
	next := name + ".new"
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(s.UID, s.GID))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(root.Rename(next, name), syncDir(root, path.Dir(name)))
}

func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// takeLock takes the lock of a directory, and gives that of another one back.
func (s *Store) takeLock(ctx context.Context, root *os.Root, dir string) error {
	s.lock.Lock()
	same := s.dir == dir && (s.file != nil || s.unlocked != "")
	s.lock.Unlock()
	if same {
		return nil
	}
	f, err := lock(ctx, root, s.Self, s.Held)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	unlocked := ""
	if err != nil {
		unlocked = fmt.Sprintf("nothing keeps a second slurmctld off StateSaveLocation %s: %v", dir, err)
		level := slog.LevelWarn
		if errors.Is(err, errShared) {
			level = slog.LevelInfo
		}
		s.Log(level, unlocked)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.file != nil {
		_ = s.file.Close()
	}
	s.dir, s.file, s.unlocked = dir, f, unlocked
	return nil
}
