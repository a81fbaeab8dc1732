package process

import (
	"bytes"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// maxLine is where a line is split, in bytes.
const maxLine = 64 << 10

// splitter cuts what is written to it into lines and emits each with its level. A line that is too long is emitted in pieces.
type splitter struct {
	emit  func(slog.Level, string)
	held  []byte     // a line without its end, shorter than maxLine
	inner bool       // held goes on with a line whose head was emitted
	level slog.Level // of that line
}

func (s *splitter) Write(data []byte) (int, error) {
	n := len(data)
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		s.add(line)
		if ended {
			s.endLine()
		}
		data = rest
	}
	return n, nil
}

// flush emits a last line that has no newline.
func (s *splitter) flush() {
	if len(s.held) > 0 {
		s.endLine()
	}
}

func (s *splitter) add(data []byte) {
	s.held = append(s.held, data...)
	for len(s.held) >= maxLine {
		n := wholeRunes(s.held[:maxLine])
		s.piece(s.held[:n])
		s.inner = true
		s.held = append(s.held[:0], s.held[n:]...)
	}
}

func (s *splitter) endLine() {
	if len(s.held) > 0 || !s.inner {
		s.piece(bytes.TrimSuffix(s.held, []byte{'\r'}))
	}
	s.held, s.inner = s.held[:0], false
}

// piece emits a line, or the part of one; what continues a line has the level of its head.
func (s *splitter) piece(data []byte) {
	text := harmless(data)
	if !s.inner {
		s.level, text = parseLine(text)
	}
	s.emit(s.level, text)
}

// wholeRunes is the length of data without a rune that its end cuts.
func wholeRunes(data []byte) int {
	for n := len(data) - 1; n > 0 && n > len(data)-utf8.UTFMax; n-- {
		if utf8.RuneStart(data[n]) {
			if utf8.FullRune(data[n:]) {
				break
			}
			return n
		}
	}
	return len(data)
}

// harmless replaces what neither JSON nor a terminal should see.
func harmless(data []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(data), "\uFFFD"), "\x00", "\uFFFD")
}
