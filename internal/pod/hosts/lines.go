package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"
)

// slot is a line of File's own, at its place.
type slot struct {
	name   string
	addr   netip.Addr
	offset int64
	text   []byte // with its first byte as in a line, and the line's end
	// since is when the name left the controller's table.
	since time.Time
	// moves: the name has another line, which will go.
	moves bool
}

// release lets a place serve again, later.
func (h *File) release(s *slot) {
	if n := len(s.text); n%width == 0 && s.offset/block == (s.offset+int64(n)-1)/block {
		s.since = h.now()
		h.free[n] = append(h.free[n], s)
		h.freed += n
	}
}

// keep notes a live line, and drop one that is live no more.
func (h *File) keep(s *slot) {
	h.slots[s.name] = append(h.slots[s.name], s)
	h.live += len(s.text)
}

func (h *File) drop(s *slot) {
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

// change writes the lines of new addresses, and then takes away those of old ones.
func (h *File) change(f *os.File, names []string) error {
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
			h.removeLater(s)
			continue
		}
		if err := h.hide(f, s); err != nil {
			return err
		}
	}
	return h.removeOutdated(f)
}

// difference is a name's lines that have still to come, and those that must go.
func (h *File) difference(name string) (fresh, stale []*slot) {
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

// removeLater lets an old line stay: whoever is reading has missed the new one, which stands above it.
func (h *File) removeLater(s *slot) {
	s.since = h.now()
	h.outdated = append(h.outdated, s)
}

func (h *File) removeOutdated(f *os.File) error {
	for len(h.outdated) > 0 {
		s := h.outdated[0]
		if rest := quarantine - h.now().Sub(s.since); rest >= 0 {
			if !h.waiting {
				h.waiting = true
				h.later(rest+time.Second, h.lookAgain)
			}
			return nil
		}
		h.outdated = h.outdated[1:]
		if err := h.hide(f, s); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain leaves an error to the next change, which meets it too.
func (h *File) lookAgain() {
	h.mu.Lock()
	h.waiting = false
	h.mu.Unlock()
	_ = h.Mend()
}

func (h *File) hide(f *os.File, s *slot) error {
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
func (h *File) place(f *os.File, lines []*slot) error {
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
func (h *File) add(lines []*slot) error {
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
