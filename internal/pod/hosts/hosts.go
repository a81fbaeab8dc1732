// Package hosts keeps names of peers in /etc/hosts, while resolvers read it and the kubelet may write it.
package hosts

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/hostname"
)

// File keeps names of peers in /etc/hosts. Kubernetes mounts that file by itself, so that no other file
// can take its place, and resolvers read it while it changes. File never truncates it and never moves
// what stands there:
//
//   - A name comes in as a comment at the file's end, or in the place of a comment of File's own. Its first
//     byte then makes the comment a line.
//   - A name goes by its first byte, which becomes '#'.
//   - A peer's new address stands before its old one goes. It stands further down in the file, where a
//     resolver has still to come; or else the old one stays for a while.
//   - The place of a name that has gone is left alone for a while, because a resolver may have read half
//     of it.
//   - No line lies across a multiple of 1024 bytes, where C libraries cut their reads.
//
// Thus a reader sees each line whole or not at all, and misses no peer that lives. The file is as long as
// the most peers at once need, and some more after fast changes. The kubelet writes it anew when a container
// of the pod starts again: it empties the file, and fills it. File writes nothing between the two, and puts
// its names back after that. Lines that do not end in File's own mark are left alone.
type File struct {
	path string
	now  func() time.Time
	// later calls a function after a while.
	later func(time.Duration, func())

	mu sync.Mutex
	// want are the names that should be there, with their addresses.
	want map[string][]netip.Addr
	// reserved are names that lead to the pod itself while they are not wanted, and forbidden those that have no line even if they are.
	reserved, forbidden map[string]bool
	// last has the file's state after the agent's last write, nil before it.
	last *state
	// titled: the file has the title. open: its last line has no end. filled: there has been something in it.
	titled, open, filled bool
	// slots are the live lines of each name.
	slots map[string][]*slot
	// free are places of names that have gone, by their sizes, the one that went first at the front.
	free map[int][]*slot
	// outdated are old lines that stay for a while, the first to go at the front. freed is the bytes of
	// all free places, and live those of all live ones.
	outdated    []*slot
	waiting     bool // for the first of them
	freed, live int
	// foreign are names of other lines, in lower case, with their addresses.
	foreign map[string][]netip.Addr
	// taken are wanted names that other lines have with another address.
	taken map[string]bool
}

const (
	// mark ends File's own lines, live or not.
	mark = " # slurmlet.dev/peer"
	// title comes before the first of them.
	title = "# slurmlet keeps the lines that end in" + mark + ".\n"
	// block is what no line of File's own lies across. musl reads 1024 bytes at once, glibc 4096.
	block = 1024
	// width is what the length of a place is a multiple of, so that places serve again.
	width = 32
	// quarantine is how long a place is left alone, or an old line stays. It must be longer than a
	// resolver may be kept from going on in the middle of the file.
	quarantine = 10 * time.Second
	// leastFreed is the bytes of free places from which on moving names use them.
	leastFreed = 64 << 10
	// mostBytes bounds the file that is read.
	mostBytes = 64 << 20
)

// New makes a File of a path, which is /etc/hosts but in tests.
func New(path string) *File {
	later := func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	return &File{path: path, now: time.Now, later: later, want: map[string][]netip.Addr{}}
}

// Set changes names: those with addresses come in, and those without go. It writes the file, and what could
// not be written comes with the next call.
func (h *File) Set(names map[string][]netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, addrs := range names {
		if len(addrs) == 0 || !hostname.Valid(name) {
			delete(h.want, name)
			continue
		}
		h.want[name] = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !hostname.Reachable(a) })
	}
	return h.write(slices.Sorted(maps.Keys(names)))
}

// loopback takes no connection: nobody listens there on a peer's port.
var loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// Reserve has names lead to the pod itself for as long as they have no address, in place of those of an earlier call.
func (h *File) Reserve(names []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := map[string]bool{}
	for _, name := range names {
		if hostname.Valid(name) {
			next[name] = true
		}
	}
	last := h.reserved
	h.reserved = next
	return h.write(differ(last, next))
}

// differ are the names that one set has and the other has not.
func differ(last, next map[string]bool) []string {
	changed := maps.Clone(next)
	maps.Copy(changed, last)
	maps.DeleteFunc(changed, func(name string, _ bool) bool { return last[name] == next[name] })
	return slices.Sorted(maps.Keys(changed))
}

// Forbid keeps names out of this file, also where they are wanted, in place of those of an earlier call.
func (h *File) Forbid(names []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := map[string]bool{}
	for _, name := range names {
		next[name] = true
	}
	last := h.forbidden
	h.forbidden = next
	return h.write(differ(last, next))
}

// Forbidden are the names that are wanted, and forbidden.
func (h *File) Forbidden() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.forbidden {
		if len(h.want[name]) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Mend looks whether somebody else has written the file, and puts the names back.
func (h *File) Mend() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write(nil)
}

// Taken are the wanted names that other lines of the file have with another address.
func (h *File) Taken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.taken))
}

// Len returns the number of names that the file is to have.
func (h *File) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.want)
}

// all are the names that are wanted, or there.
func (h *File) all() []string {
	names := map[string]bool{}
	for name := range h.want {
		names[name] = true
	}
	for name := range h.reserved {
		names[name] = true
	}
	for name := range h.slots {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// wanted are the addresses that a name should have. It has none here if another line has the name.
func (h *File) wanted(name string) []netip.Addr {
	want := h.want[name]
	delete(h.taken, name)
	if h.forbidden[name] {
		return nil
	}
	others := h.foreign[strings.ToLower(name)]
	if len(want) == 0 && len(others) == 0 && h.reserved[name] {
		return loopback
	}
	if len(others) == 0 || len(want) == 0 {
		return want
	}
	if !slices.ContainsFunc(others, func(a netip.Addr) bool { return slices.Contains(want, a.Unmap()) }) {
		h.taken[name] = true
	}
	return nil
}
