package slurmconf

import (
	"fmt"
	"strings"
)

// Pair is a key and its value.
type Pair struct {
	// Key is as it is written, see [strings.EqualFold].
	Key string
	// Value is without quotation marks and escapes.
	Value string

	line *Line
	// key, value and end are where in the line's text the key begins, and the
	// value with its quotation marks begins and ends.
	key, value, end int32
}

// Position is where the value begins. That of the line is where the record begins.
func (p Pair) Position() Position {
	if p.line == nil {
		return Position{}
	}
	return p.line.position(int(p.value))
}

// Line is the line on which the pair stands.
func (p Pair) Line() *Line { return p.line }

// parsePairs finds Key=value, once or, in a record, several times. Slurm takes what
// its pattern matches, and refuses the line when anything but white space is
// left.
func (p *parser) parsePairs(l *Line, seen logical) {
	text := seen.text
	for at := 0; ; {
		if at = skip(text, at); at == len(text) {
			return
		}
		if len(l.Pairs) == 1 && !p.file.Kind.IsRecord(l.Pairs[0].Key) {
			want := `one value on a line, between " if it has white space`
			if next, ok := match(text, at); ok {
				want = text[next.key:next.keyEnd] + " on a line of its own"
			}
			p.note(p.file.Kind.refusal(), "syntax", l, seen.raw(at),
				fmt.Sprintf("%s behind the value of %s", quote(text[at:]), l.Pairs[0].Key), want)
			return
		}
		m, ok := match(text, at)
		if !ok || len(l.Pairs) == maxPairs {
			p.unreadable(l, seen, at)
			return
		}
		p.doubtful(l, seen, m)
		l.Pairs = append(l.Pairs, m.pair(l, seen))
		at = m.end
	}
}

// matched is where in a logical line a pair stands.
type matched struct {
	text          string
	key, keyEnd   int
	operator      byte
	value, end    int
	quoted, apart bool // apart: white space stands behind =, and none before it
}

// match is Slurm's pattern: key, white space, an operator, =, white space, a
// value that is quoted or without white space, and white space or the end.
func match(text string, at int) (matched, bool) {
	m := matched{text: text, key: at, operator: '='}
	for at < len(text) && isKey(text[at]) {
		at++
	}
	m.keyEnd = at
	at = skip(text, at)
	if at < len(text) && text[at] != '=' && strings.IndexByte("-*+/", text[at]) >= 0 {
		m.operator = text[at]
		at++
	}
	if m.keyEnd == m.key || at == len(text) || text[at] != '=' {
		return m, false
	}
	m.value = skip(text, at+1)
	m.apart = m.value > at+1 && m.operator == '=' && at == m.keyEnd
	m.end, m.quoted = valueEnd(text, m.value)
	return m, m.end > m.value
}

// valueEnd is where the value ends that begins at from. It is quoted only when
// what follows the second quotation mark is not part of it.
func valueEnd(text string, from int) (end int, quoted bool) {
	if rest := text[from:]; strings.HasPrefix(rest, `"`) {
		if i := strings.IndexByte(rest[1:], '"'); i >= 0 {
			end := from + i + 2
			if end == len(text) || isSpace(text[end]) {
				return end, true
			}
		}
	}
	for end = from; end < len(text) && !isSpace(text[end]); {
		end++
	}
	return end, false
}

func isKey(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// skip is where white space that begins at from ends.
func skip(text string, from int) int {
	for from < len(text) && isSpace(text[from]) {
		from++
	}
	return from
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func (m matched) content() string {
	if m.quoted {
		return m.text[m.value+1 : m.end-1]
	}
	return m.text[m.value:m.end]
}

func (m matched) pair(l *Line, seen logical) Pair {
	return Pair{
		Key: m.text[m.key:m.keyEnd], Value: m.content(), line: l,
		key: int32(seen.raw(m.key)), value: int32(seen.raw(m.value)), end: int32(seen.raw(m.end-1) + 1),
	}
}

// lookalikes are characters that look like white space or like nothing, and that Slurm
// takes for letters.
var lookalikes = []struct{ text, name string }{
	{"\u00a0", "no-break space (U+00A0)"},
	{"\u200b", "zero-width space (U+200B)"},
	{"\u202f", "narrow no-break space (U+202F)"},
	{"\u2003", "em space (U+2003)"},
	{"\ufeff", "zero-width no-break space (U+FEFF)"},
}

// findLookalike is the first of them in a text, and where it is.
func findLookalike(text string) (name string, at int) {
	if strings.IndexFunc(text, func(r rune) bool { return r > 126 }) < 0 {
		return "", -1
	}
	for _, u := range lookalikes {
		if at := strings.Index(text, u.text); at >= 0 {
			return u.name, at
		}
	}
	return "", -1
}

// doubtful notes what Slurm reads, but not as it looks.
func (p *parser) doubtful(l *Line, seen logical, m matched) {
	key, value := m.text[m.key:m.keyEnd], m.content()
	if name, at := findLookalike(m.text[m.value:m.end]); at >= 0 {
		p.note(Warning, "unseen", l, seen.raw(m.value+at),
			fmt.Sprintf("the value of %s has a %s, which is a letter to Slurm", key, name), "white space, or nothing")
	}
	if m.operator != '=' {
		p.note(Warning, "operator", l, seen.raw(m.keyEnd), fmt.Sprintf("Slurm takes %s%c= for %s=", key, m.operator, key), "=")
	}
	if !m.quoted && strings.HasPrefix(value, `"`) {
		p.note(Warning, "quote", l, seen.raw(m.value), fmt.Sprintf("the quotation marks are part of the value %s", value),
			`the whole value between two ", and \# for a # in it`)
	}
	if _, second := match(m.text, m.value); second && m.apart && !m.quoted && len(l.Pairs) > 0 {
		p.note(Warning, "empty", l, seen.raw(m.value), fmt.Sprintf("the value of %s is %s", key, value), `"" for an empty value`)
	}
}

// unreadable notes that no pair begins here.
func (p *parser) unreadable(l *Line, seen logical, at int) {
	what, want := "cannot read "+quote(seen.text[at:]), "Key=value"
	if m, _ := match(seen.text, at); m.value > 0 {
		what, want = m.text[m.key:m.keyEnd]+" has no value", `one, or "" for an empty value`
	}
	if len(l.Pairs) > 0 && want == "Key=value" {
		if last := l.Pairs[len(l.Pairs)-1]; !strings.HasPrefix(l.text[last.value:last.end], `"`) {
			want = fmt.Sprintf(`Key=value, or %s="%s %s" if that is all one value`, last.Key, last.Value, firstWord(seen.text[at:]))
		}
	}
	if name, i := findLookalike(firstWord(seen.text[at:])); i >= 0 && at > 0 {
		what, want = fmt.Sprintf("%s, which has a %s", what, name), "white space, or nothing"
	}
	switch trimmed := strings.TrimLeft(seen.text, space); {
	case len(l.Pairs) == maxPairs:
		what, want = "more than "+fmt.Sprint(maxPairs)+" values on a line", "fewer"
	case len(trimmed) < len(seen.text) && isInclude(trimmed):
		want = "Include at the very beginning of a line"
	}
	p.note(p.file.Kind.refusal(), "syntax", l, seen.raw(at), what, want)
}

// firstWord is what stands before the next white space.
func firstWord(text string) string {
	if i := strings.IndexAny(text, space); i >= 0 {
		return text[:i]
	}
	return text
}

// quote is the beginning of a text, as a finding shows it.
func quote(text string) string {
	text = strings.Trim(text, space)
	if len(text) > 60 {
		return fmt.Sprintf("%.60q…", text)
	}
	return fmt.Sprintf("%q", text)
}
