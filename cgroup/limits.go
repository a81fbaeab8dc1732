// Package cgroup reads what this container may use and prepares the cgroup
// subtree that is handed to Slurm. It knows cgroup v2 only
// (Documentation/admin-guide/cgroup-v2.rst in the kernel's sources).
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNotUnified says that /sys/fs/cgroup is not a cgroup v2 hierarchy, so
// none of its files has the container's limits.
var ErrNotUnified = errors.New("/sys/fs/cgroup is not a cgroup v2 hierarchy")

// Limits is what the kernel lets this container use. Of several cgroups above
// one another the tightest counts, as it does in the kernel.
type Limits struct {
	// Quota is CPU time in CPUs: cpu.max's quota divided by its period.
	Quota Bound[float64] `json:"quota"`
	// CPUSet is where the container may run: cpuset.cpus.effective, bounded
	// only when it leaves out a CPU that is online.
	CPUSet Bound[Set] `json:"cpuset"`
	// Offline is the CPUs that cpuset.cpus names and that are not online.
	Offline Bound[Set] `json:"offline,omitzero"`
	// Memory is memory.max in bytes.
	Memory Bound[int64] `json:"memory"`
	// Swap is memory.swap.max in bytes.
	Swap Bound[int64] `json:"swap"`
}

// Bound is a limit and the file or variable that it was read from. The zero
// value is no limit.
type Bound[T any] struct {
	Value  T      `json:"value"`
	Source string `json:"source"`
}

// Bounded says whether there is a limit at all.
func (b Bound[T]) Bounded() bool { return b.Source != "" }

// FS is a view of the machine below a root directory: "/" in a container, a
// tree of fixtures in a test.
type FS struct {
	root string
	// outside is what Limits reads beyond /sys/fs/cgroup, nil for nothing.
	outside *outside
}

// NewFS returns the view below root.
func NewFS(root string) FS { return FS{root: root} }

const mount = "sys/fs/cgroup"

// Limits reads cpu.max, cpuset.cpus, cpuset.cpus.effective, memory.max and
// memory.swap.max from the calling process's cgroup up to the top of what it
// can see. In a cgroup namespace that top is the container's own cgroup.
func (f FS) Limits() (Limits, error) {
	own, err := f.path("self")
	if err != nil {
		return Limits{}, err
	}
	online, err := f.Online()
	if err != nil {
		return Limits{}, err
	}
	var l Limits
	inside := hierarchy{read: f.readCgroup, name: "/" + mount}
	if err := inside.climb(&l, visible(own), online); err != nil || f.outside == nil {
		return l, err
	}
	above := hierarchy{read: f.outside.read, name: "outside the container: "}
	return l, above.climb(&l, f.outside.parent, online)
}

// hierarchy is what is seen of it somewhere: how to read a file there, and what
// the files' names begin with in messages.
type hierarchy struct {
	read func(name string) ([]byte, error)
	name string
}

func (f FS) readCgroup(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(f.root, mount, name))
}

func (o *outside) read(name string) ([]byte, error) {
	return o.tree.ReadFile(strings.TrimPrefix(name, "/"))
}

// climb takes in the limits of a cgroup and of all above it.
func (h hierarchy) climb(l *Limits, dir string, online Set) error {
	for ; ; dir = path.Dir(dir) {
		if err := h.tighten(l, dir, online); err != nil || dir == "/" {
			return err
		}
	}
}

// path is a process's cgroup as the calling one's cgroup namespace names it.
func (f FS) path(pid string) (string, error) {
	if !f.unified() {
		return "", ErrNotUnified
	}
	groups, err := os.ReadFile(filepath.Join(f.root, "proc", pid, "cgroup"))
	if err != nil {
		return "", fmt.Errorf("cannot read /proc/%s/cgroup: %w", pid, err)
	}
	for line := range strings.Lines(string(groups)) {
		if p, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			return p, nil
		}
	}
	return "", ErrNotUnified
}

// visible maps a path outside the cgroup namespace ("/../x", seen by a process
// that was moved out of it) to the top of what can be seen.
func visible(p string) string {
	if strings.HasPrefix(p, "/..") {
		return "/"
	}
	return path.Clean("/" + p)
}

func (f FS) unified() bool {
	_, err := os.Stat(filepath.Join(f.root, mount, "cgroup.controllers"))
	return err == nil
}

func (h hierarchy) tighten(l *Limits, dir string, online Set) error {
	return errors.Join(
		h.limit(dir, "cpu.max", func(text, source string) error {
			quota, err := parseCPUMax(text)
			if err == nil && quota > 0 && (!l.Quota.Bounded() || quota < l.Quota.Value) {
				l.Quota = Bound[float64]{quota, source}
			}
			return err
		}),
		h.limit(dir, "memory.max", bytesInto(&l.Memory)),
		h.limit(dir, "memory.swap.max", bytesInto(&l.Swap)),
		h.limit(dir, "cpuset.cpus", func(text, source string) error {
			set, err := parseOnline(text, online)
			if offline := set.Without(online); offline.Len() > 0 {
				l.Offline = Bound[Set]{offline, source}
			}
			return err
		}),
		h.limit(dir, "cpuset.cpus.effective", func(text, source string) error {
			set, err := parseOnline(text, online)
			if err == nil && !l.CPUSet.Bounded() && set.Len() > 0 && online.Without(set).Len() > 0 {
				l.CPUSet = Bound[Set]{set.Intersect(online), source}
			}
			return err
		}),
	)
}

// bytesInto takes the text of memory.max or memory.swap.max.
func bytesInto(b *Bound[int64]) func(text, source string) error {
	return func(text, source string) error {
		n, err := parseBytesMax(text)
		if err == nil && n >= 0 && (!b.Bounded() || n < b.Value) {
			*b = Bound[int64]{n, source}
		}
		return err
	}
}

// limit hands the text of one interface file to use. A file that is not there
// is no limit: its controller is off in this cgroup, or this is the real root.
func (h hierarchy) limit(dir, name string, use func(text, source string) error) error {
	file := path.Join(dir, name)
	source := h.name + file
	text, err := h.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", source, err)
	}
	value := strings.TrimSpace(string(text))
	if err := use(value, source); err != nil {
		return fmt.Errorf("%s: cannot use %q: %w", source, value, err)
	}
	return nil
}

// parseCPUMax returns "$MAX $PERIOD" (microseconds) in CPUs, 0 for "max".
func parseCPUMax(text string) (float64, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > 2 {
		return 0, errors.New(`want "max" or a quota, and a period, in microseconds`)
	}
	period := uint64(100_000)
	if len(fields) == 2 {
		p, err := strconv.ParseUint(fields[1], 10, 32)
		if err != nil || p == 0 {
			return 0, errors.New("the period is not a positive number of microseconds")
		}
		period = p
	}
	if fields[0] == "max" {
		return 0, nil
	}
	quota, err := strconv.ParseUint(fields[0], 10, 53)
	if err != nil || quota == 0 {
		return 0, errors.New(`the quota is neither "max" nor a positive number of microseconds`)
	}
	return float64(quota) / float64(period), nil
}

// parseOnline refuses CPUs of which none is online. With such a cpuset.cpus the
// kernel lets the container run wherever its parent may, which is more than it
// was given.
func parseOnline(text string, online Set) (Set, error) {
	set, err := ParseSet(text)
	if err == nil && set.Len() > 0 && set.Intersect(online).Len() == 0 {
		return Set{}, fmt.Errorf("none of these CPUs is online; %s are", online)
	}
	return set, err
}

// parseBytesMax returns bytes, -1 for "max".
func parseBytesMax(text string) (int64, error) {
	if text == "max" {
		return -1, nil
	}
	bytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil || bytes < 0 {
		return 0, errors.New(`want "max" or a number of bytes`)
	}
	return bytes, nil
}

// LimitFiles lists the files that set what Limits reads, for somebody who
// watches them: the kernel reports every write to them (inotify(7)).
func (f FS) LimitFiles() ([]string, error) {
	own, err := f.path("self")
	if err != nil {
		return nil, err
	}
	var files []string
	for dir := visible(own); ; dir = path.Dir(dir) {
		for _, name := range []string{"cpu.max", "cpuset.cpus", "memory.max", "memory.swap.max"} {
			file := filepath.Join(f.root, mount, dir, name)
			if _, err := os.Stat(file); err == nil {
				files = append(files, file)
			}
		}
		if dir == "/" {
			return files, nil
		}
	}
}
