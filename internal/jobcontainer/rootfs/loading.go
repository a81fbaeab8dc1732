package rootfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Of the format of programs (elf(5)), for 64 bits and with the lowest byte first. Package debug/elf reads the tables for
// debuggers, too, and takes the start of each container a fifth of a millisecond more.
const (
	elfHeader, elfSegment, elfEntry = 64, 56, 16

	segmentLoaded, segmentDynamic, segmentInterpreter = 1, 2, 3
	tagStrings, tagRpath, tagRunpath                  = 5, 15, 29
	// mostOfELF is how much of a table is read.
	mostOfELF = 64 << 10
)

var elfMagic = []byte{0x7f, 'E', 'L', 'F', 2, 1}

// loading says what loads a program: the path of its dynamic linker, empty for a static one, and the first directory of
// its own for libraries, empty for none.
func loading(path string) (linker, libraries string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	start := make([]byte, 4<<10)
	n, err := f.ReadAt(start, 0)
	if start = start[:n]; n < elfHeader || !bytes.HasPrefix(start, elfMagic) {
		return "", "", fmt.Errorf("%s: it is no ELF file for 64 bits: %w", path, err)
	}
	p := program{file: f}
	at, count := word(start[32:]), int(binary.LittleEndian.Uint16(start[56:]))
	for ; count > 0; count-- {
		if at > uint64(len(start)) || len(start)-int(at) < elfSegment {
			return "", "", fmt.Errorf("%s: its segments are not at its beginning", path)
		}
		segment := start[at:]
		s := span{offset: word(segment[8:]), address: word(segment[16:]), size: word(segment[32:])}
		switch binary.LittleEndian.Uint32(segment) {
		case segmentLoaded:
			p.loaded = append(p.loaded, s)
		case segmentDynamic:
			p.dynamic = s
		case segmentInterpreter:
			linker = text(p.read(s.offset, s.size))
		}
		at += elfSegment
	}
	libraries, err = p.libraries()
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", path, err)
	}
	return linker, libraries, nil
}

// program is an ELF file, and where its segments are.
type program struct {
	file    *os.File
	loaded  []span
	dynamic span
}

// span is a part of a file, and its address in memory.
type span struct{ offset, address, size uint64 }

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// text is a string that NUL ends.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// read reads a part, or what there is of it.
func (p program) read(offset, size uint64) []byte {
	b := make([]byte, min(size, mostOfELF))
	n, _ := p.file.ReadAt(b, int64(offset&(1<<62-1))) // it has read n bytes, whatever follows
	return b[:n]
}

// libraries is the first directory of DT_RUNPATH, or of DT_RPATH.
func (p program) libraries() (string, error) {
	values := map[uint64]uint64{}
	for b := p.read(p.dynamic.offset, p.dynamic.size); len(b) >= elfEntry; b = b[elfEntry:] {
		values[word(b)] = word(b[8:])
	}
	name, is := values[tagRunpath]
	if !is {
		name, is = values[tagRpath]
	}
	if !is {
		return "", nil
	}
	for _, s := range p.loaded {
		if table := values[tagStrings]; table >= s.address && table-s.address < s.size {
			first, _, _ := strings.Cut(text(p.read(s.offset+table-s.address+name, 4<<10)), ":")
			return first, nil
		}
	}
	return "", errors.New("its strings are in no segment")
}
