package slurmconf

import (
	"fmt"
	"strings"
)

// readPlugin takes the first line of plugstack.conf: there are no continuations
// and no escapes.
func readPlugin(text string) (string, logical) {
	first := firstLine(text)
	content := first
	if i := strings.IndexAny(content, "#\x00"); i >= 0 {
		content = content[:i]
	}
	return first, logical{text: content}
}

// parsePlugin reads a line of plugstack.conf: "required" or "optional", the path of a
// plugin and its arguments, or "include" and a pattern.
func (p *parser) parsePlugin(l *Line, seen logical) {
	// \r is no white space to strtok(3) here.
	words := strings.FieldsFunc(seen.text, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
	if len(words) == 0 {
		return
	}
	at := strings.Index(seen.text, words[0])
	option := words[0]
	known := option == "required" || option == "optional" || option == includeKey
	switch {
	case !known:
		p.note(Warning, "plugstack", l, at, fmt.Sprintf("Slurm ignores this line, which begins with %q", option),
			"required, optional or include, in small letters")
		return
	case len(words) == 1:
		p.note(Warning, "plugstack", l, at, fmt.Sprintf("Slurm ignores %q without a file", option), "the path of one")
		return
	case strings.Contains(seen.text, "\r"):
		p.note(Warning, "plugstack", l, strings.IndexByte(seen.text, '\r'),
			"a carriage return, which Slurm takes for part of the last word", "line ends without it")
	case len(l.text) >= maxPlugin:
		p.note(Warning, "plugstack", l, maxPlugin, "Slurm reads the rest as another line",
			fmt.Sprintf("lines of less than %d bytes", maxPlugin))
	}
	if option == includeKey {
		l.Include = words[1]
		return
	}
	value := at + len(option) + strings.Index(seen.text[at+len(option):], words[1])
	text := strings.Trim(seen.text[value:], space)
	l.Pairs = []Pair{{Key: option, Value: text, line: l, key: int32(at), value: int32(value), end: int32(value + len(text))}}
}

// maxPlugin is the size of the buffer into which Slurm reads a line (PATH_MAX).
const maxPlugin = 4096
