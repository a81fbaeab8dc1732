package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// sessions is the cgroup, below the container's, with one for each user of a login pod, named by the uid.
	sessions = "sessions"
	// newcomers is beside those of the users. It has sshd, and the sessions of the last moment: there are not too many
	// processes before anybody knows whose they are. It has no limit of memory, because what a session has taken there
	// stays counted there.
	newcomers = "new"
	// mostProcesses is what a user may have where the container's own cgroup does not say how many there may be. The
	// kubelet has that limit on the pod's cgroup, out of the container's sight.
	mostProcesses = 1000
)

// UserLimits are what all processes of one user may have together.
type UserLimits struct {
	// Memory is in bytes.
	Memory int64 `json:"memory"`
	// Processes counts threads, too.
	Processes int64 `json:"processes"`
}

func (l UserLimits) String() string {
	return fmt.Sprintf("%d MiB of memory and %d processes", l.Memory>>20, l.Processes)
}

// Users are the cgroups of a login pod's users. They are safe for concurrent use.
type Users struct {
	fs FS
	// base is the container's cgroup, dir the one of all users.
	base, dir string
	asked     UserLimits
	observe   func(UserEvent)
	notify    *inotify

	mu      sync.Mutex
	counted map[int]*userCounts // by uid
}

// OpenUsers makes the container's cgroup writable, as Delegate does, and moves every process into Leaf. It clears
// memory.oom.group, with which the kernel would end all users' sessions for one that has too much. A limit that asked
// does not have is half of the container's. observe is called with what the limits do.
func (f FS) OpenUsers(asked UserLimits, observe func(UserEvent)) (*Users, AccessMode, error) {
	d, _, err := f.delegateLeaf()
	if err != nil {
		return nil, "", err
	}
	base := filepath.Join(f.root, d.Base)
	u := &Users{
		fs: f.Within(d), base: base, dir: filepath.Join(base, sessions),
		asked: asked, observe: observe, counted: map[int]*userCounts{},
	}
	if err := errors.Join(f.ClearOOMGroup(d.Base), makeGroup(u.dir)); err != nil {
		return nil, "", err
	}
	enable(u.dir)
	on, err := enabled(u.dir)
	for _, name := range []string{cpuController, memoryController, pidsController} {
		if err == nil && !slices.Contains(on, name) {
			err = fmt.Errorf("the container's cgroup does not have the controller %s", name)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if u.notify, err = newInotify(); err != nil {
		return nil, "", err
	}
	go u.follow()
	return u, d.Access, u.openNewcomers()
}

func (u *Users) openNewcomers() error {
	dir := filepath.Join(u.dir, newcomers)
	return errors.Join(makeGroup(dir), write(filepath.Join(dir, "pids.max"), strconv.FormatInt(u.share(), 10)))
}

func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cannot make a cgroup for users: %w", err)
	}
	return nil
}

// Each is what each user may have. The container may have been resized since the last call.
func (u *Users) Each() (UserLimits, error) {
	l := u.asked
	if l.Memory == 0 {
		pod, err := u.fs.Limits()
		if err != nil {
			return l, err
		}
		all := pod.Memory.Value
		if !pod.Memory.Bounded() {
			if all, err = u.fs.MemTotal(); err != nil {
				return l, err
			}
		}
		l.Memory = all / 2
	}
	if l.Processes == 0 {
		l.Processes = u.share()
	}
	return l, nil
}

// share is how many processes there may be at most where nobody has asked for a number.
func (u *Users) share() int64 {
	if all, err := readLimit(filepath.Join(u.base, "pids.max")); err == nil && all > 0 {
		return min(mostProcesses, max(1, all/2))
	}
	return mostProcesses
}

// open makes a user's cgroup with the limits of the moment, or gives it these. Root has none.
func (u *Users) open(uid int) error {
	dir := filepath.Join(u.dir, strconv.Itoa(uid))
	if err := makeGroup(dir); err != nil || uid == 0 {
		return err
	}
	limits, err := u.Each()
	if err == nil {
		err = errors.Join(
			write(filepath.Join(dir, "memory.max"), strconv.FormatInt(limits.Memory, 10)),
			write(filepath.Join(dir, "pids.max"), strconv.FormatInt(limits.Processes, 10)),
		)
	}
	if err != nil {
		return fmt.Errorf("cannot limit a user: %w", err)
	}
	return u.count(uid, dir)
}

// AddSSHD puts sshd where newcomers are. Whoever it lets in starts there.
func (u *Users) AddSSHD(pid int) error {
	return u.move(newcomers, func() []int { return []int{pid} })
}

// mostRounds is how often what is to be moved is looked for: it may fork meanwhile.
const mostRounds = 10

// Begin moves a session's process and its descendants to the user's cgroup.
func (u *Users) Begin(uid, session int) error {
	if err := u.open(uid); err != nil {
		return err
	}
	return u.move(strconv.Itoa(uid), func() []int { return u.fs.descendants(session) })
}

// Sweep moves what is among the newcomers and belongs to a user with a session there: it has left the session before
// Begin, or it forks faster than Begin moves.
func (u *Users) Sweep() {
	for uid := range u.uids() {
		_ = u.move(strconv.Itoa(uid), func() (all []int) { // it stays among the newcomers
			for _, text := range pids(filepath.Join(u.dir, newcomers)) {
				pid, _ := strconv.Atoi(text) // the kernel wrote it
				if one, alive := u.fs.seen(pid); alive && one.UID == uid {
					all = append(all, pid)
				}
			}
			return all
		})
	}
}

// move moves processes, as long as there are others than those that it has moved.
func (u *Users) move(name string, find func() []int) error {
	procs := filepath.Join(u.dir, name, "cgroup.procs")
	moved := map[int]bool{}
	for range mostRounds {
		before := len(moved)
		for _, pid := range find() {
			if moved[pid] {
				continue
			}
			// One that has ended needs no cgroup (ESRCH).
			if err := write(procs, strconv.Itoa(pid)); err != nil && u.fs.alive(pid) {
				return fmt.Errorf("cannot move a process to the cgroup of its user: %w", err)
			}
			moved[pid] = true
		}
		if len(moved) == before {
			break
		}
	}
	return nil
}

func (f FS) alive(pid int) bool {
	_, alive := f.seen(pid)
	return alive
}

// End removes the cgroups of users in which no process is left: a session may leave some.
func (u *Users) End() {
	dirs, _ := filepath.Glob(filepath.Join(u.dir, "[0-9]*")) // the pattern is a good one
	for _, dir := range dirs {
		if os.Remove(dir) == nil { // one with a process stays (EBUSY)
			uid, _ := strconv.Atoi(filepath.Base(dir)) // Begin made it
			u.forget(uid)
		}
	}
}

// descendants are a process and its children, theirs too.
func (f FS) descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob(filepath.Join(f.root, "proc/[0-9]*/stat")) // the pattern is a good one
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		one, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1]) // the kernel wrote it
			children[parent] = append(children[parent], one)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
