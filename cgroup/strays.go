package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Strays has the kernel kill a stray, and no task of a job, when the container is out of memory. A stray
// is a process in the agent's own cgroup that is no daemon: one of "kubectl exec", of ssh, of a prolog.
// It inherits the oom_score_adj of its container, which is -997 in a Guaranteed pod, and tasks have 0.
//
// Nothing is polled: memory.high of that cgroup is what the daemons may need. When more is in use, the
// kernel slows down whoever allocates, and counts that in memory.events. Strays then raises the
// oom_score_adj of each stray to 1000, and moves it to a cgroup of its own (Pen) that may have what the
// container has left. What is over that is killed in there: in the container's own cgroup the kernel
// often kills a second process before the first one has given its memory back, and that would be a
// task (Linux 7.2: the agent itself reads its program again, which the kernel has thrown away).
type Strays struct {
	StrayOptions
	fs   FS
	base string
	// find finds the agent's cgroup, which may move (Reclaim).
	find                  func() (string, error)
	leafEvents, penEvents memoryEvents
	known                 map[int]marked
	// pending are the kills whose process is not known yet.
	pending int64
	// Tests have no processes.
	pidfd func(pid int) (int, error)
}

// Pen is the cgroup of strays, below the container's.
const Pen = "strays"

// StrayOptions say what Strays does.
type StrayOptions struct {
	// Reserve is how many bytes the daemons may need.
	Reserve int64
	// Daemons are processes that are no strays, and Helpers daemons whose children are none either.
	// slurmd's children are strays, but for slurmd itself and slurmstepd.
	Daemons, Helpers func() []int
	// Observe is called with what happens, in order.
	Observe func(StrayEvent)
}

// Stray is a process that is neither a daemon nor a task of a job.
type Stray struct {
	PID, UID int
	Command  string
	// Bytes is the memory that it had when it was looked at last (VmRSS).
	Bytes int64
}

func (s Stray) String() string {
	return fmt.Sprintf("%s (process %d, uid %d, %d MiB)", s.Command, s.PID, s.UID, s.Bytes>>20)
}

// StrayEvent is one of StraysMarked, StrayKilled and StrayFault.
type StrayEvent interface{ isStrayEvent() }

type (
	// StraysMarked are the strays that die before tasks of jobs from now on, the largest first.
	StraysMarked struct{ All []Stray }
	// StrayKilled is one that the kernel has killed for want of memory. Without a PID it is a process of
	// the daemons' cgroup that is not known.
	StrayKilled struct{ Stray }
	// StrayFault is something that could not be done.
	StrayFault struct{ Err error }
)

func (StraysMarked) isStrayEvent() {}
func (StrayKilled) isStrayEvent()  {}
func (StrayFault) isStrayEvent()   {}

// marked is a stray whose end is awaited.
type marked struct {
	Stray
	fd int // its pidfd
}

const (
	// leastStep is how far memory.high is above what is in use, at least, in bytes.
	leastStep = 16 << 20
	// strayMargin is what strays leave of the container's memory for the daemons' programs, which the
	// kernel throws away where there is nothing else left, in bytes. strayNotice is how far below
	// their limit they are reported, because the container may have more left by then.
	strayMargin = 32 << 20
	strayNotice = 8 << 20
	// mostMarked is how many strays are awaited at once. Further ones are marked, and not named.
	mostMarked = 128
	// unnamedTime is how long after a kill a stray's end still has its process' name. The kernel counts a kill at once; the
	// process ends when its memory is free, seconds later on a busy machine.
	unnamedTime = 10 * time.Second
	// diesFirst is the highest oom_score_adj (proc_pid_oom_score_adj(5)).
	diesFirst = "1000"
)

// WatchStrays begins, and goes on as long as this process lives. The cgroup is its own, below d.Base
// (OwnLeaf).
func (f FS) WatchStrays(d Delegation, o StrayOptions) (*Strays, error) {
	s := f.newStrays(d, o)
	if err := s.begin(); err != nil {
		return nil, fmt.Errorf("cannot have processes that Slurm did not start die before jobs: %w", err)
	}
	go s.run()
	return s, nil
}

func (f FS) newStrays(d Delegation, o StrayOptions) *Strays {
	return &Strays{
		StrayOptions: o, fs: f, base: filepath.Join(f.root, d.Base), known: map[int]marked{},
		find:  func() (string, error) { return f.OwnLeaf(d) },
		pidfd: func(pid int) (int, error) { return unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK) },
	}
}

// begin opens both cgroups.
func (s *Strays) begin() error {
	leaf, err := s.find()
	if err != nil {
		return err
	}
	if s.leafEvents, err = openCounted(filepath.Join(s.fs.root, leaf)); err != nil {
		return err
	}
	pen := filepath.Join(s.base, Pen)
	if err := os.Mkdir(pen, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if s.penEvents, err = openCounted(pen); err != nil {
		return err
	}
	return s.settle()
}

// settle sets memory.high to what daemons may need.
func (s *Strays) settle() error {
	current, err := s.leafEvents.current()
	if err != nil {
		return err
	}
	return s.leafEvents.setLimit("memory.high", max(s.Reserve, current+leastStep))
}

// setPenLimit lets strays have what the container has left.
func (s *Strays) setPenLimit() error {
	limit, err1 := readLimit(filepath.Join(s.base, "memory.max"))
	used, err2 := readLimit(filepath.Join(s.base, "memory.current"))
	current, err3 := s.penEvents.current()
	if err := errors.Join(err1, err2, err3); err != nil || limit < 0 {
		return err
	}
	most := max(0, current+limit-used-strayMargin)
	high := most - strayNotice
	if high <= current {
		high = limit // what is over the limit is killed at once, and not slowed down
	}
	return errors.Join(s.penEvents.setLimit("memory.high", high), s.penEvents.setLimit("memory.max", most))
}

// look does what the counts ask for, and takes leave of the processes that have ended.
func (s *Strays) look(ended []int) error {
	leafHigh, killedIn, err := s.leafEvents.changes()
	if err != nil {
		return err
	}
	penHigh, killed, err := s.penEvents.changes()
	if err != nil {
		return err
	}
	s.pending += killedIn + killed
	for _, pid := range ended {
		s.forget(pid)
	}
	if !leafHigh && !penHigh && (len(ended) == 0 || len(s.known) > 0) {
		return nil
	}
	if fresh := s.mark(); len(fresh) > 0 {
		s.Observe(StraysMarked{fresh})
	}
	if leafHigh || len(s.known) == 0 {
		err = s.settle()
	}
	if len(s.known) > 0 {
		err = errors.Join(err, s.setPenLimit())
	}
	return err
}

// forget forgets a process that has ended. If the kernel has killed one, it was this one.
func (s *Strays) forget(pid int) {
	m := s.known[pid]
	delete(s.known, pid)
	_ = unix.Close(m.fd)
	if s.pending > 0 {
		s.pending--
		s.Observe(StrayKilled{m.Stray})
	}
}

// mark raises the oom_score_adj of each stray, and moves it. It returns those that were moved.
func (s *Strays) mark() (fresh []Stray) {
	daemons, helpers := s.Daemons(), s.Helpers()
	inside := s.fs.straysIn(s.penEvents.dir, nil, nil)
	for _, one := range slices.Concat(s.fs.straysIn(s.leafEvents.dir, daemons, helpers), inside) {
		if m, found := s.known[one.PID]; found {
			m.Stray = one
			s.known[one.PID] = m
			continue
		}
		moved := !slices.Contains(inside, one)
		if err := s.markOne(one, moved); err == nil && moved {
			fresh = append(fresh, one)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // it has not just ended
			s.Observe(StrayFault{fmt.Errorf("cannot have %v die before jobs: %w", one, err)})
		}
	}
	slices.SortFunc(fresh, func(a, b Stray) int { return int(b.Bytes - a.Bytes) })
	return fresh
}

// errMany is of a stray whose end is not awaited.
var errMany = fmt.Errorf("too many at once: %w", fs.ErrNotExist)

func (s *Strays) markOne(one Stray, move bool) error {
	pid := strconv.Itoa(one.PID)
	fd := -1
	if len(s.known) < mostMarked {
		var err error
		if fd, err = s.pidfd(one.PID); err != nil {
			return err
		}
	}
	err := write(filepath.Join(s.fs.root, "proc", pid, "oom_score_adj"), diesFirst)
	if err == nil && move {
		err = write(filepath.Join(s.penEvents.dir, "cgroup.procs"), pid)
	}
	switch {
	case fd < 0:
		return errors.Join(err, errMany)
	case err != nil:
		_ = unix.Close(fd)
		return err
	}
	s.known[one.PID] = marked{one, fd}
	return nil
}

// run goes on as long as the agent.
func (s *Strays) run() {
	for {
		ended, open := s.wait()
		if !open {
			return
		}
		err := s.look(ended)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, fs.ErrNotExist) { // the agent stands elsewhere
			s.leafEvents.close()
			s.penEvents.close()
			err = s.begin()
		}
		if err != nil {
			s.Observe(StrayFault{fmt.Errorf("cannot have processes that Slurm did not start die before jobs any more: %w", err)})
			return
		}
	}
}

// wait returns when the kernel reports an event, with the strays that have ended.
func (s *Strays) wait() (ended []int, open bool) {
	pids := slices.Sorted(maps.Keys(s.known))
	polled := []unix.PollFd{s.leafEvents.polled(), s.penEvents.polled()}
	for _, pid := range pids {
		polled = append(polled, unix.PollFd{Fd: int32(s.known[pid].fd), Events: unix.POLLIN}) //nolint:gosec // a file descriptor
	}
	patience := -1
	if s.pending > 0 {
		patience = int(unnamedTime.Milliseconds())
	}
	n, err := unix.Poll(polled, patience)
	switch {
	case errors.Is(err, unix.EINTR):
		return nil, true
	case err != nil:
		return nil, false
	case n == 0:
		for ; s.pending > 0; s.pending-- {
			s.Observe(StrayKilled{})
		}
	}
	for i, pid := range pids {
		if polled[i+2].Revents != 0 {
			ended = append(ended, pid)
		}
	}
	return ended, true
}
