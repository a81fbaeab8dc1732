package slurmconf

import (
	"fmt"
	"strings"
)

const include = "include"

// isInclude: the line begins with Include and white space.
func isInclude(text string) bool {
	return len(text) > len(include) && strings.EqualFold(text[:len(include)], include) &&
		isSpace(text[len(include)])
}

// include takes the name of the file: what stands up to the next white space.
func (p *parser) include(l *Line, seen logical) {
	text := seen.text
	from := skip(text, len(include))
	name := text[from:]
	if i := strings.IndexAny(name, space); i >= 0 {
		name = name[:i]
	}
	behind := skip(text, from+len(name))
	switch at := seen.raw(from); {
	case name == "":
		p.note(Error, "include", l, 0, "Include without a file", "the name of one")
	case strings.Contains(name, "*"):
		p.note(Error, "include", l, at, fmt.Sprintf("Slurm includes no patterns, such as %q", name), "an Include for each file")
	case behind < len(text):
		p.note(Error, "syntax", l, seen.raw(behind), fmt.Sprintf("%s behind Include %s", quote(text[behind:]), name), "one file")
	default:
		l.Include = name
		p.overrun(l, seen)
	}
}

// overrun: behind a file's name Slurm looks for white space, and beyond the end
// of the line, too, for what longer lines before have left there.
func (p *parser) overrun(l *Line, seen logical) {
	if !isSpace(seen.text[len(seen.text)-1]) {
		p.note(Warning, "include", l, 0, "no white space follows the file's name, and Slurm reads on beyond the line", "a line end, or white space before the comment")
	}
}
