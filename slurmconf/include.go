package slurmconf

import (
	"fmt"
	"slices"
	"strings"
)

const includeKey = "include"

// isInclude: the line begins with Include and white space.
func isInclude(text string) bool {
	return len(text) > len(includeKey) && strings.EqualFold(text[:len(includeKey)], includeKey) &&
		isSpace(text[len(includeKey)])
}

// parseInclude takes the name of the file: what stands up to the next white space.
func (p *parser) parseInclude(l *Line, seen logical) {
	text := seen.text
	from := skip(text, len(includeKey))
	name := text[from:]
	if i := strings.IndexAny(name, space); i >= 0 {
		name = name[:i]
	}
	behind := skip(text, from+len(name))
	switch at := seen.raw(from); {
	case name == "":
		severity := Error
		if p.takesNone() {
			severity = Warning
		}
		p.note(severity, "include", l, 0, "Include without a file", "the name of one")
	case strings.Contains(name, "*"):
		p.note(Error, "include", l, at, fmt.Sprintf("Slurm includes no patterns, such as %q", name), "an Include for each file")
	case behind < len(text):
		p.note(Error, "syntax", l, seen.raw(behind), fmt.Sprintf("%s behind Include %s", quote(text[behind:]), name), "one file")
	case overrun(l, seen):
		p.note(Error, "include", l, at, "no white space follows the name "+name+
			", and Slurm reads on behind the line", "a line end, or white space before the comment")
	default:
		l.Include = name
	}
}

// overrun: behind a file's name Slurm looks for white space, in the comment and
// beyond the end of the text, too. Wherever it finds some, no more may follow.
func overrun(l *Line, seen logical) bool {
	last := len(seen.text) - 1
	if isSpace(seen.text[last]) {
		return false
	}
	behind := l.text[seen.raw(last)+1:]
	i := strings.IndexAny(behind, space)
	return len(seen.pieces) > 0 || i < 0 || strings.Trim(behind[i:], space) != ""
}

// takesNone: for the name, Slurm reads on behind the line, in what is left of those before
// it. It takes the line for nothing if white space is all that follows there.
func (p *parser) takesNone() bool {
	var left []byte
	for _, before := range p.file.Lines {
		text := []byte(before.text)
		if i := comment(before.text); i < len(text) {
			text[i] = 0
		}
		text = append(text, 0)
		left = append(text, left[min(len(text), len(left)):]...)
	}
	end := slices.Index(left, 0)
	behind := strings.TrimLeft(string(left[end:]), "\x00")
	i := strings.IndexAny(behind, space)
	if i < 0 {
		return false
	}
	rest := strings.TrimLeft(behind[i:], space)
	return rest == "" || rest[0] == 0
}
