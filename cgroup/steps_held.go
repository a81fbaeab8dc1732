package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// held are the watches of a cgroup and of files in it, by name; whole is the
// cgroup's own. They have to be given back: of a removed cgroup the kernel sends
// no IN_IGNORED and keeps the watch, which counts against max_user_watches.
type held map[string]int

const whole = "."

// hold calls react for every event. What is held already is held once. What has
// gone meanwhile is an error, and no fault: its parent reports that. Where no
// watch can be had, everything is looked at again and again.
func (s *Steps) hold(h held, dir, name string, mask uint32, react func(happening)) error {
	watch, err := s.kernel.add(filepath.Join(dir, name), mask)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, errNoInstance) {
		s.rescanLater(err)
		return nil
	}
	if err != nil {
		return err
	}
	if former, found := h[name]; found && former != watch {
		s.release(h, name)
	}
	h[name] = watch
	s.watches[watch] = react
	return nil
}

// release gives watches back.
func (s *Steps) release(h held, names ...string) {
	for _, name := range names {
		if watch, found := h[name]; found {
			delete(h, name)
			delete(s.watches, watch)
			s.kernel.remove(watch)
		}
	}
}

func (s *Steps) releaseAll(h held) {
	for name := range h {
		s.release(h, name)
	}
}

// isWatched says whether a cgroup is the one that is watched. Where events were lost,
// another may have come in its place.
func (s *Steps) isWatched(h held, dir string) bool {
	former, found := h[whole]
	if !found {
		return !gone(dir)
	}
	watch, err := s.kernel.add(dir, watchDir)
	if err == nil && watch != former {
		s.kernel.remove(watch)
	}
	return watch == former || err != nil && !gone(dir)
}

// rescanLater has everything looked at after a while, until no watch is refused. It is
// reported once.
func (s *Steps) rescanLater(err error) {
	if !s.rescanning {
		s.rescanning = true
		s.Observe(StepFault{
			fmt.Errorf(
				"cannot watch every step: %w (sysctl fs.inotify.max_user_watches and max_user_instances); they are "+
					"looked at every %v", err, s.again),
		})
	}
	if s.rescan == nil {
		s.rescan = s.after(s.again, func() {
			s.rescan = nil
			s.scan(false)
			s.rescanning = s.rescan != nil
		})
	}
}

// fault reports an error, unless it only says that something has gone, or that Close was called.
func (s *Steps) fault(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, os.ErrClosed) {
		s.Observe(StepFault{err})
	}
}
