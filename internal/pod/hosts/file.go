package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"
)

// state is how to see that nobody else has written the file.
type state struct {
	size  int64
	mtime time.Time
	inode fs.FileInfo
}

// write brings some names up to date, or all if the file is not as it was left.
func (h *File) write(names []string) (err error) {
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

func (h *File) writeOnce(names []string) error {
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
	if len(names) == 0 && len(h.outdated) == 0 {
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

// read finds File's own lines and the names of others.
func (h *File) read(f *os.File) error {
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return err
	}
	h.slots, h.free, h.foreign, h.taken = map[string][]*slot{}, map[int][]*slot{}, map[string][]netip.Addr{}, map[string]bool{}
	h.outdated, h.freed, h.live = nil, 0, 0
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
func (h *File) found(line []byte, offset int64) {
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
