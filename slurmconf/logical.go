package slurmconf

import (
	"sort"
	"strings"
)

// logical is what Slurm sees of a line: without comments, continuations and
// escapes.
type logical struct {
	text string
	// pieces say from where in the line's own text each part comes. Where
	// there is none, text is the beginning of it.
	pieces []piece
}

// piece: what stands at seen and after it comes from raw and after it.
type piece struct{ seen, raw int }

// raw is where in the line's own text the byte at seen comes from.
func (s logical) raw(seen int) int {
	i := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].seen > seen })
	if i == 0 {
		return seen
	}
	return s.pieces[i-1].raw + seen - s.pieces[i-1].seen
}

// readLogical takes the first logical line of text: the whole of it as it
// stands there, and what Slurm sees of it. In this order Slurm cuts a line off at
// a NUL, at a comment, looks for a backslash at the end, joins, and resolves
// what is escaped.
func readLogical(text string) (string, logical) {
	first := firstLine(text)
	content, continued := cut(first)
	if !continued && strings.IndexByte(content, '\\') < 0 {
		return first, logical{text: content}
	}
	var b builder
	end := len(first)
	b.unescape(content, 0)
	for continued && end < len(text) {
		next := firstLine(text[end:])
		content, continued = cut(next)
		b.unescape(content, end)
		end += len(next)
	}
	return text[:end], logical{b.text.String(), b.pieces}
}

// firstLine is text up to its first newline, that included.
func firstLine(text string) string {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1]
	}
	return text
}

// cut removes from a line what a NUL or # hides, and the backslash that
// continues it.
func cut(line string) (content string, continued bool) {
	if i := strings.IndexByte(line, 0); i >= 0 {
		line = line[:i]
	}
	line = line[:comment(line)]
	end := strings.TrimRight(line, space)
	rest := strings.TrimRight(end, `\`)
	if (len(end)-len(rest))%2 == 1 {
		return end[:len(end)-1], true
	}
	return line, false
}

// space is what isspace(3) counts as such in the C locale.
const space = " \t\n\v\f\r"

// comment is where the comment of a line begins, its length if it has none: at a
// # behind an even number of backslashes.
func comment(line string) int {
	for from := 0; ; {
		i := strings.IndexByte(line[from:], '#')
		if i < 0 {
			return len(line)
		}
		at := from + i
		if before := strings.TrimRight(line[:at], `\`); (at-len(before))%2 == 0 {
			return at
		}
		from = at + 1
	}
}

// builder joins the parts of a logical line.
type builder struct {
	text   strings.Builder
	pieces []piece
}

// unescape adds content, which stands at raw in the line's own text. What
// follows a backslash is taken as it is.
func (b *builder) unescape(content string, raw int) {
	for {
		i := strings.IndexByte(content, '\\')
		if i < 0 {
			b.add(content, raw)
			return
		}
		b.add(content[:i], raw)
		content, raw = content[i+1:], raw+i+1
		n := min(1, len(content))
		b.add(content[:n], raw)
		content, raw = content[n:], raw+n
	}
}

func (b *builder) add(content string, raw int) {
	seen, last := b.text.Len(), len(b.pieces)-1
	if last < 0 || b.pieces[last].raw-b.pieces[last].seen != raw-seen {
		b.pieces = append(b.pieces, piece{seen, raw})
	}
	b.text.WriteString(content)
}
