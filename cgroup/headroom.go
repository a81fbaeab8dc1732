package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// guarded are the interface files of a job's cgroup that bound its memory.
// Slurm writes both. memory.high has to rise too, or a step at its limit would
// be slowed down instead of killed, and its slurmstepd with it.
var guarded = []string{"memory.high", "memory.max"}

// guard keeps a job's limits above those of its steps. Slurm gives the job and
// step/user the same memory.max, and slurmstepd stands in the job only: so it
// is the job that runs out of memory first, and once the step's processes have
// been killed and are not gone yet, slurmstepd is what is left to kill. Every
// further step of the job writes the job's limits again.
func (s *Steps) guard(j *job) {
	if s.Headroom == 0 {
		return
	}
	for _, name := range guarded {
		s.fault(s.hold(j.held, j.path, name, watchFile, func(happening) { s.raise(j) }))
	}
	s.raise(j)
}

func (s *Steps) raise(j *job) {
	if s.Headroom == 0 {
		return
	}
	for _, name := range guarded {
		if err := s.raiseOne(j, name); err != nil {
			s.fault(fmt.Errorf("cannot raise the memory limit of a job: %w", err))
		}
	}
}

// raiseOne adds the headroom to what Slurm has written. The kernel rounds down to
// pages, so what counts as our own value is what is read back. A value that rounding
// does not explain is a later one of Slurm's, and inotify will report it.
func (s *Steps) raiseOne(j *job, name string) error {
	path := filepath.Join(j.path, name)
	limit, err := readLimit(path)
	if err != nil || limit < 0 || limit == j.wrote[name] {
		return err
	}
	if step := s.largestStep(j, name); j.found && j.wrote[name] == 0 && step > 0 && limit >= step+s.Headroom {
		j.wrote[name] = limit // raised in an earlier life
		return nil
	}
	raised := limit + s.Headroom
	if err := write(path, strconv.FormatInt(raised, 10)); err != nil {
		return err
	}
	j.wrote[name] = raised
	is, err := readLimit(path)
	if rounded := raised - is; err == nil && rounded >= 0 && rounded < int64(os.Getpagesize()) {
		j.wrote[name] = is
	}
	return err
}

func (s *Steps) largestStep(j *job, name string) int64 {
	var largest int64
	for _, entry := range children(j.path) {
		if limit, err := readLimit(filepath.Join(j.path, entry, "user", name)); err == nil {
			largest = max(largest, limit)
		}
	}
	return largest
}

// readLimit returns bytes, -1 for none.
func readLimit(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	limit, err := parseBytesMax(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: cannot use %q: %w", path, text, err)
	}
	return limit, nil
}
