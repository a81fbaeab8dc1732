package cgroup

import (
	"path/filepath"
	"slices"
	"strconv"
)

// UserEvent is what a user's limits have done since the last event.
type UserEvent struct {
	UID int
	// Killed is how many processes the kernel has killed for want of memory, Refused how many more there would be.
	Killed, Refused int64
}

// userCounts are the counts of a user's cgroup that were read last.
type userCounts struct {
	uid             int
	dir             string
	watches         []int
	killed, refused int64
}

// read takes the counts anew, and returns what is new.
func (c *userCounts) read() UserEvent {
	before := *c
	c.killed, c.refused = readCount(c.dir, "memory.events", "oom_kill"), readCount(c.dir, "pids.events", "max")
	return UserEvent{c.uid, max(0, c.killed-before.killed), max(0, c.refused-before.refused)}
}

// readCount is one of a cgroup's counts (cgroup-v2.rst); 0 where there is none.
func readCount(dir, file, name string) int64 {
	fields := words(filepath.Join(dir, file))
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == name {
			count, _ := strconv.ParseInt(fields[i+1], 10, 64) // the kernel wrote it
			return count
		}
	}
	return 0
}

// count follows a user's cgroup, which is new.
func (u *Users) count(uid int, dir string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counted[uid] != nil {
		return nil
	}
	one := &userCounts{uid: uid, dir: dir}
	for _, file := range []string{"memory.events", "pids.events"} {
		watch, err := u.notify.add(filepath.Join(dir, file), watchFile)
		if err != nil {
			return err
		}
		one.watches = append(one.watches, watch)
	}
	u.counted[uid] = one
	return nil
}

// uids are of the users with a cgroup, but for root.
func (u *Users) uids() map[int]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := map[int]bool{}
	for uid := range u.counted {
		all[uid] = true
	}
	return all
}

// forget gives the watches of a cgroup back that is gone. The kernel does not (steps_held.go).
func (u *Users) forget(uid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.counted[uid]; one != nil {
		delete(u.counted, uid)
		for _, watch := range one.watches {
			u.notify.remove(watch)
		}
	}
}

// follow waits for changes of counts, as long as this process lives.
func (u *Users) follow() {
	buffer := make([]byte, 4096)
	for {
		all, err := u.notify.read(buffer)
		if err != nil {
			return
		}
		for _, h := range all {
			if event := u.changed(h.watch); event.Killed > 0 || event.Refused > 0 {
				u.observe(event)
			}
		}
	}
}

func (u *Users) changed(watch int) UserEvent {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.counted {
		if slices.Contains(one.watches, watch) {
			return one.read()
		}
	}
	return UserEvent{}
}
