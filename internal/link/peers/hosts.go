package peers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Hosts keeps names of peers in /etc/hosts. Kubernetes mounts that file by itself, so that no other file
// can take its place, and resolvers read it while it changes. Hosts never truncates it and never moves
// what stands there:
//
//   - A name comes in as a comment at the file's end, or in the place of a comment of Hosts' own. Its first
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
// of the pod starts again: it empties the file, and fills it. Hosts writes nothing between the two, and puts
// its names back after that. Lines that do not end in Hosts' own mark are left alone.
type Hosts struct {
	path string
	now  func() time.Time
	// later calls a function after a while.
	later func(time.Duration, func())

	mu sync.Mutex
	// want are the names that should be there, with their addresses.
	want map[string][]netip.Addr
	// reserved are names that lead nowhere while they are not wanted, and forbidden those that have no line even if they are.
	reserved, forbidden map[string]bool
	// last is how the file was left.
	last *state
	// titled: the file has the title. open: its last line has no end. filled: there has been something in it.
	titled, open, filled bool
	// slots are the live lines of each name.
	slots map[string][]*slot
	// free are places of names that have gone, by their sizes, the one that went first at the front.
	free map[int][]*slot
	// lingering are old lines that stay for a while, the first to go at the front. freed is the bytes of
	// all free places, and live those of all live ones.
	lingering   []*slot
	waiting     bool // for the first of them
	freed, live int
	// foreign are names of other lines, in lower case, with their addresses.
	foreign map[string][]netip.Addr
	// taken are wanted names that other lines have with another address.
	taken map[string]bool
}

// slot is a line of Hosts' own, at its place.
type slot struct {
	name   string
	addr   netip.Addr
	offset int64
	text   []byte // with its first byte as in a line, and the line's end
	// since is when it went.
	since time.Time
	// moves: the name has another line, which will go.
	moves bool
}

// state is how to see that nobody else has written the file.
type state struct {
	size  int64
	mtime time.Time
	inode fs.FileInfo
}

const (
	// mark ends Hosts' own lines, live or not.
	mark = " # slurmlet.dev/peer"
	// title comes before the first of them.
	title = "# slurmlet keeps the lines that end in" + mark + ".\n"
	// block is what no line of Hosts' own lies across. musl reads 1024 bytes at once, glibc 4096.
	block = 1024
	// width is what the length of a place is a multiple of, so that places serve again.
	width = 32
	// quarantine is how long a place is left alone, or an old line stays. It must be longer than a
	// resolver may be kept from going on in the middle of the file.
	quarantine = 10 * time.Second
	// leastFreed is the bytes of free places from which on moving names use them.
	leastFreed = 64 << 10
	// mostHosts bounds the file that Hosts reads.
	mostHosts = 64 << 20
)

// NewHosts makes a Hosts of a file, which is /etc/hosts but in tests.
func NewHosts(path string) *Hosts {
	later := func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	return &Hosts{path: path, now: time.Now, later: later, want: map[string][]netip.Addr{}}
}

// Set changes names: those with addresses come in, and those without go. It writes the file, and what could
// not be written comes with the next call.
func (h *Hosts) Set(names map[string][]netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, addrs := range names {
		if len(addrs) == 0 || !validHost(name) {
			delete(h.want, name)
			continue
		}
		h.want[name] = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !usable(a) })
	}
	return h.write(slices.Sorted(maps.Keys(names)))
}

// nowhere takes no connection: nobody listens there on a peer's port.
var nowhere = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// Reserve has names lead nowhere for as long as they have no address, in place of those of an earlier call.
func (h *Hosts) Reserve(names []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := map[string]bool{}
	for _, name := range names {
		if validHost(name) {
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

// Forbid has names lead nowhere by this file, also where they are wanted, in place of those of an earlier call.
func (h *Hosts) Forbid(names []string) error {
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
func (h *Hosts) Forbidden() (names []string) {
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
func (h *Hosts) Mend() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write(nil)
}

// Taken are the wanted names that other lines of the file have with another address.
func (h *Hosts) Taken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.taken))
}

// Len is how many names are wanted.
func (h *Hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.want)
}

// write brings some names up to date, or all if the file is not as it was left.
func (h *Hosts) write(names []string) (err error) {
	for range mostTries {
		if err = h.writeOnce(names); err == nil {
			return nil
		}
		h.last = nil // the next try reads the file
		if !errors.Is(err, errMoved) {
			break
		}
	}
	return fmt.Errorf("cannot write the hosts file: %w", err)
}

const mostTries = 3

// errMoved: somebody else writes the file just now.
var errMoved = errors.New("somebody else writes it at the same time, or has emptied it")

func (h *Hosts) writeOnce(names []string) error {
	f, err := os.OpenFile(h.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := stateOf(f)
	if err != nil {
		return err
	}
	if h.last == nil || !now.same(h.last) {
		if err := h.read(f); err != nil {
			return err
		}
		names = h.all()
	}
	if len(names) == 0 && len(h.lingering) == 0 {
		h.last = now
		return nil
	}
	if err := h.change(f, names); err != nil {
		return err
	}
	h.last, err = stateOf(f)
	return err
}

func stateOf(f *os.File) (*state, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &state{size: info.Size(), mtime: info.ModTime(), inode: info}, nil
}

func (s *state) same(other *state) bool {
	return s.size == other.size && s.mtime.Equal(other.mtime) && os.SameFile(s.inode, other.inode)
}

// all are the names that are wanted, or there.
func (h *Hosts) all() []string {
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

// read finds Hosts' own lines and the names of others.
func (h *Hosts) read(f *os.File) error {
	text, err := io.ReadAll(io.LimitReader(f, mostHosts))
	if err != nil {
		return err
	}
	h.slots, h.free, h.foreign, h.taken = map[string][]*slot{}, map[int][]*slot{}, map[string][]netip.Addr{}, map[string]bool{}
	h.lingering, h.freed, h.live = nil, 0, 0
	h.titled, h.open = false, len(text) > 0 && text[len(text)-1] != '\n'
	h.filled = h.filled || len(text) > 0
	for offset := 0; offset < len(text); {
		line := text[offset:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end+1]
		}
		h.found(line, int64(offset))
		offset += len(line)
	}
	return nil
}

// found takes a line of the file.
func (h *Hosts) found(line []byte, offset int64) {
	addr, names, ok := parseHosts(line)
	s := &slot{offset: offset, text: bytes.Clone(line), since: h.now()}
	switch marked := bytes.HasSuffix(line, []byte(mark+"\n")); {
	case string(line) == title:
		h.titled = true
	case marked && ok && len(names) == 1:
		s.name, s.addr = names[0], addr
		h.keep(s)
	case marked && line[0] == '#':
		h.release(s)
	default: // with the mark and two names, too
		for _, name := range names {
			name = strings.ToLower(name)
			h.foreign[name] = append(h.foreign[name], addr)
		}
	}
}

// parseHosts reads a line as hosts(5) has it. ok is false for one without an address and a name.
func parseHosts(line []byte) (addr netip.Addr, names []string, ok bool) {
	text, _, _ := strings.Cut(string(line), "#")
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return addr, nil, false
	}
	addr, err := netip.ParseAddr(fields[0])
	if err != nil {
		return addr, nil, false
	}
	return addr, fields[1:], true
}

// release lets a place serve again, later.
func (h *Hosts) release(s *slot) {
	if n := len(s.text); n%width == 0 && s.offset/block == (s.offset+int64(n)-1)/block {
		s.since = h.now()
		h.free[n] = append(h.free[n], s)
		h.freed += n
	}
}

// keep notes a live line, and drop one that is live no more.
func (h *Hosts) keep(s *slot) {
	h.slots[s.name] = append(h.slots[s.name], s)
	h.live += len(s.text)
}

func (h *Hosts) drop(s *slot) {
	h.live -= len(s.text)
	rest := slices.DeleteFunc(h.slots[s.name], func(one *slot) bool { return one == s })
	if h.slots[s.name] = rest; len(rest) == 0 {
		delete(h.slots, s.name)
	}
}

// lineOf is a name's line.
func lineOf(addr netip.Addr, name string) []byte {
	head := addr.String() + " " + name
	n := len(head) + len(mark) + 1
	n += (width - n%width) % width
	return fmt.Appendf(nil, "%-*s%s\n", n-len(mark)-1, head, mark)
}

// wanted are the addresses that a name should have. It has none here if another line has the name.
func (h *Hosts) wanted(name string) []netip.Addr {
	want := h.want[name]
	delete(h.taken, name)
	if h.forbidden[name] {
		return nil
	}
	others := h.foreign[strings.ToLower(name)]
	if len(want) == 0 && len(others) == 0 && h.reserved[name] {
		return nowhere
	}
	if len(others) == 0 || len(want) == 0 {
		return want
	}
	if !slices.ContainsFunc(others, func(a netip.Addr) bool { return slices.Contains(want, a.Unmap()) }) {
		h.taken[name] = true
	}
	return nil
}

// change writes the lines of new addresses, and then takes away those of old ones.
func (h *Hosts) change(f *os.File, names []string) error {
	var fresh, stale []*slot
	for _, name := range names {
		in, out := h.difference(name)
		fresh, stale = append(fresh, in...), append(stale, out...)
	}
	if err := h.place(f, fresh); err != nil {
		return err
	}
	foremost := map[string]int64{} // of each name's new lines
	for _, s := range fresh {
		if err := s.turn(f, '#', s.text[0]); err != nil {
			return err
		}
		h.keep(s)
		if at, moved := foremost[s.name]; !moved || s.offset < at {
			foremost[s.name] = s.offset
		}
	}
	for _, s := range stale {
		h.drop(s)
		if at, moved := foremost[s.name]; moved && at < s.offset {
			h.linger(s)
			continue
		}
		if err := h.hide(f, s); err != nil {
			return err
		}
	}
	return h.endLingering(f)
}

// difference is a name's lines that have still to come, and those that must go.
func (h *Hosts) difference(name string) (fresh, stale []*slot) {
	want := h.wanted(name)
	var kept []netip.Addr
	for _, s := range h.slots[name] {
		if slices.Contains(want, s.addr) && !slices.Contains(kept, s.addr) {
			kept = append(kept, s.addr)
			continue
		}
		stale = append(stale, s)
	}
	for _, addr := range want {
		if !slices.Contains(kept, addr) {
			kept = append(kept, addr)
			fresh = append(fresh, &slot{name: name, addr: addr, text: lineOf(addr, name), moves: len(stale) > 0})
		}
	}
	return fresh, stale
}

// linger lets an old line stay: whoever is reading has missed the new one, which stands above it.
func (h *Hosts) linger(s *slot) {
	s.since = h.now()
	h.lingering = append(h.lingering, s)
}

func (h *Hosts) endLingering(f *os.File) error {
	for len(h.lingering) > 0 {
		s := h.lingering[0]
		if rest := quarantine - h.now().Sub(s.since); rest >= 0 {
			if !h.waiting {
				h.waiting = true
				h.later(rest+time.Second, h.lookAgain)
			}
			return nil
		}
		h.lingering = h.lingering[1:]
		if err := h.hide(f, s); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain leaves an error to the next change, which meets it too.
func (h *Hosts) lookAgain() {
	h.mu.Lock()
	h.waiting = false
	h.mu.Unlock()
	_ = h.Mend()
}

func (h *Hosts) hide(f *os.File, s *slot) error {
	if err := s.turn(f, s.text[0], '#'); err != nil {
		return err
	}
	h.release(s)
	return nil
}

// turn makes a comment a line, or a line a comment, by one byte.
func (s *slot) turn(f *os.File, from, to byte) error {
	if err := s.expect(f, from); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte{to}, s.offset)
	return err
}

// expect is errMoved if the line is not at its place, with first as its first byte.
func (s *slot) expect(f *os.File, first byte) error {
	there := make([]byte, len(s.text))
	if _, err := f.ReadAt(there, s.offset); errors.Is(err, io.EOF) {
		return errMoved
	} else if err != nil {
		return err
	}
	if there[0] != first || !bytes.Equal(there[1:], s.text[1:]) {
		return errMoved
	}
	return nil
}

// place writes lines as comments: in the places of names that went long ago, and at the file's end.
func (h *Hosts) place(f *os.File, lines []*slot) error {
	var more []*slot
	for _, s := range lines {
		n := len(s.text)
		scarce := !s.moves || h.freed > max(h.live, leastFreed)
		if queue := h.free[n]; scarce && len(queue) > 0 && h.now().Sub(queue[0].since) > quarantine {
			old := queue[0]
			h.free[n] = queue[1:]
			h.freed -= n
			if err := old.expect(f, '#'); err != nil {
				return err
			}
			if _, err := f.WriteAt(s.text[1:], old.offset+1); err != nil {
				return err
			}
			s.offset = old.offset
			continue
		}
		more = append(more, s)
	}
	if len(more) == 0 {
		return nil
	}
	return h.add(more)
}

// add appends lines as comments. Whoever reads meanwhile may see half a comment, which says nothing.
func (h *Hosts) add(lines []*slot) error {
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	begin := info.Size()
	if begin == 0 && h.filled {
		return errMoved // what is about to come would lie across these lines
	}
	var text []byte
	if h.open {
		text = append(text, '\n')
	}
	if !h.titled {
		text = append(text, title...)
	}
	for _, s := range lines {
		if room := block - (begin+int64(len(text)))%block; room < int64(len(s.text)) {
			text = appendFiller(text, int(room))
		}
		s.offset = begin + int64(len(text))
		text = append(append(text, '#'), s.text[1:]...)
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	h.titled, h.open = true, false
	end, err := f.Seek(0, io.SeekCurrent)
	if err == nil && end != begin+int64(len(text)) {
		return errMoved // somebody else has appended something, and the places are others
	}
	return err
}

// appendFiller appends a comment, or an empty line, of n bytes.
func appendFiller(text []byte, n int) []byte {
	if n > 1 {
		text = append(text, '#')
		text = append(text, bytes.Repeat([]byte{' '}, n-2)...)
	}
	return append(text, '\n')
}
