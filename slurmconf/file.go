package slurmconf

import (
	"fmt"
	"slices"
	"strings"
)

// MaxFileSize is the largest file that is read, in bytes. Slurm has no limit of
// its own; a ConfigMap holds 1 MiB.
const MaxFileSize = 4 << 20

// What a file can cost is bounded. Of Slurm's own keys, a line has fewer than
// a hundred.
const (
	maxLines = 1 << 17
	maxPairs = 1000
)

// File is the text of one configuration file, in lines.
type File struct {
	// Name is the file's name in positions of findings.
	Name string
	Kind Kind
	// Lines together are the text, byte by byte.
	Lines []*Line
}

// Line is one line as Slurm sees it: several of the text, where a backslash
// joins them. Without Pairs and Include it is blank, a comment, or wrong.
type Line struct {
	// Pairs are what is set here: one pair, or a record of several.
	Pairs []Pair
	// Include is the file that is read in the place of this line, as it is
	// named here; for plugstack.conf a pattern.
	Include string

	of     *File
	number int
	text   string
}

// Text is the line as it stands in the file, with comments and line ends.
func (l *Line) Text() string { return l.text }

// Position returns the place where the line begins.
func (l *Line) Position() Position { return Position{File: l.of.Name, Line: l.number} }

// Get is the last value of key on this line; capitals do not matter.
func (l *Line) Get(key string) (Pair, bool) {
	for _, p := range slices.Backward(l.Pairs) {
		if strings.EqualFold(p.Key, key) {
			return p, true
		}
	}
	return Pair{}, false
}

// position is that of a byte of the line's text.
func (l *Line) position(offset int) Position {
	before := l.text[:min(offset, len(l.text))]
	return Position{
		File:   l.of.Name,
		Line:   l.number + strings.Count(before, "\n"),
		Column: len(before) - strings.LastIndexByte(before, '\n'),
	}
}

// String is the whole text.
func (f *File) String() string {
	var b strings.Builder
	for _, l := range f.Lines {
		b.WriteString(l.text)
	}
	return b.String()
}

// Parse reads the text of one file, of the kind that its name says. Includes
// are not followed: see [Read]. There always is a File, whatever is found.
func Parse(name, text string) (*File, Findings) { return parse(name, KindOf(name), text) }

func parse(name string, kind Kind, text string) (*File, Findings) {
	f := &File{Name: name, Kind: kind}
	p := parser{file: f}
	switch {
	case len(text) > MaxFileSize:
		p.noteFile("size", fmt.Sprintf("%d bytes", len(text)), fmt.Sprintf("at most %d", MaxFileSize))
	case kind.yaml():
		p.parseText(text)
	default:
		p.parseLines(text)
	}
	return f, p.findings
}

// parser turns text into the lines of file and notes what is wrong with it.
type parser struct {
	file *File
	notes
}

func (p *parser) parseLines(text string) {
	read := readLogical
	if p.file.Kind == PlugstackConf {
		read = readPlugin
	}
	for number := 1; text != ""; {
		if len(p.file.Lines) == maxLines {
			p.file.Lines = append(p.file.Lines, &Line{of: p.file, number: number, text: text})
			p.noteFile("size", fmt.Sprintf("more than %d lines", maxLines), "fewer: nodes can be named as n[1-100]")
			return
		}
		whole, seen := read(text)
		line := &Line{of: p.file, number: number, text: whole}
		p.file.Lines = append(p.file.Lines, line)
		p.parseLine(line, seen)
		number += strings.Count(whole, "\n")
		text = text[len(whole):]
	}
}

// parseText takes YAML as it is: package check judges it (slurmconf/topology).
func (p *parser) parseText(text string) {
	if text == "" {
		return
	}
	l := &Line{of: p.file, number: 1, text: text}
	p.file.Lines = []*Line{l}
	p.checkBytes(l)
}

// parseLine finds what stands on the line: in seen, which is what Slurm sees of it.
func (p *parser) parseLine(l *Line, seen logical) {
	p.checkBytes(l)
	switch {
	case p.file.Kind == PlugstackConf:
		p.parsePlugin(l, seen)
	case isInclude(seen.text):
		p.parseInclude(l, seen)
	default:
		p.parsePairs(l, seen)
	}
}

// checkBytes notes bytes that no text has, and that Slurm passes over or stumbles on.
func (p *parser) checkBytes(l *Line) {
	if at := strings.IndexByte(l.text, 0); at >= 0 {
		p.note(Warning, "binary", l, at, "a NUL byte, which hides the rest of the line from Slurm", "text")
	}
	if l.number != 1 || !strings.HasPrefix(l.text, "\xef\xbb\xbf") {
		return
	}
	switch kind := p.file.Kind; {
	case kind.yaml(): // A parser of YAML passes over it.
	case kind == PlugstackConf:
		p.note(Warning, "byte-order-mark", l, 0, "a byte order mark, for which Slurm ignores the first line", "UTF-8 without it")
	default:
		p.note(Error, "byte-order-mark", l, 0, "a byte order mark, which Slurm takes for part of the first key", "UTF-8 without it")
	}
}

// note notes what is wrong at a byte of the line's text.
func (p *parser) note(severity Severity, rule string, l *Line, offset int, what, want string) {
	if p.hasRoom(severity) {
		p.add(Finding{l.position(offset), severity, rule, what, want})
	}
}

// noteFile notes an error of the file as a whole.
func (p *parser) noteFile(rule, what, want string) {
	p.add(Finding{Position{File: p.file.Name}, Error, rule, what, want})
}
