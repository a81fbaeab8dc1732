package slurmconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An edit changes the lines of a File, and nothing else of it. A Conf or Set that
// was read before sees replaced values, and no added or removed lines. Pairs of
// the line that were taken before the edit are of no use any more.

// Setting is a key and its value, to be written.
type Setting struct{ Key, Value string }

// Replace puts another value in the place of a pair's, quoted and escaped as
// it has to be. All other bytes of the file stay. It fails for a value that
// Slurm's grammar cannot write, and then changes nothing.
func (p Pair) Replace(value string) error {
	l := p.line
	if l == nil || !slices.Contains(l.Pairs, p) {
		return errors.New("cannot replace the value of " + p.Key + ": it is not in a file, or its line was edited")
	}
	written, err := write(value, l.of.Kind)
	if err != nil {
		return fmt.Errorf("cannot set %s: %v", p.Key, err)
	}
	changed, err := l.of.parseLine(l.text[:p.value] + written + l.text[p.end:])
	if err != nil {
		return fmt.Errorf("cannot set %s: %v", p.Key, err)
	}
	for i, was := range l.Pairs {
		want := was.Value
		if was == p {
			want = value
		}
		if i >= len(changed.Pairs) || changed.Pairs[i].Value != want {
			return fmt.Errorf("cannot set %s: Slurm would not read %q as its value", p.Key, value)
		}
	}
	l.replaceBy(changed)
	l.of.renumber()
	return nil
}

// Append adds a line with the settings, below a comment of any number of lines,
// or none. More than one setting is a record.
func (f *File) Append(comment string, settings ...Setting) error {
	var b strings.Builder
	for line := range strings.Lines(comment) {
		b.WriteString(strings.TrimRight("# "+strings.TrimRight(line, `\`+space), " ") + "\n")
	}
	for i, s := range settings {
		written, err := write(s.Value, f.Kind)
		if err != nil {
			return fmt.Errorf("cannot set %s: %v", s.Key, err)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s.Key + "=" + written)
	}
	return f.appendLines(b.String()+"\n", settings)
}

// appendLines adds lines, the last of which has to hold the settings.
func (f *File) appendLines(text string, settings []Setting) error {
	added, findings := parse(f.Name, f.Kind, text)
	if err := findings.Err(); err != nil {
		return fmt.Errorf("cannot append to %s: %v", f.Name, err)
	}
	last := added.Lines[len(added.Lines)-1]
	for i, s := range settings {
		if i >= len(last.Pairs) || last.Pairs[i].Key != s.Key || last.Pairs[i].Value != s.Value {
			return fmt.Errorf("cannot append to %s: Slurm would not read %q as the value of %s", f.Name, s.Value, s.Key)
		}
	}
	if n := len(f.Lines); n > 0 {
		f.finish(f.Lines[n-1])
	}
	for _, l := range added.Lines {
		l.of = f
	}
	f.Lines = append(f.Lines, added.Lines...)
	f.renumber()
	return nil
}

// finish ends the last line of a file, also where a backslash continues it.
func (f *File) finish(l *Line) {
	if !strings.HasSuffix(l.text, "\n") {
		l.text += "\n"
	}
	last := l.text[strings.LastIndexByte(l.text[:len(l.text)-1], '\n')+1:]
	if _, continued := cut(last); continued && f.Kind != PlugstackConf {
		l.text += "\n"
	}
}

// Remove takes a line out, and its comment if that is on it. It says whether
// the line was there.
func (f *File) Remove(l *Line) bool {
	i := slices.Index(f.Lines, l)
	if i < 0 {
		return false
	}
	f.Lines = slices.Delete(f.Lines, i, i+1)
	f.renumber()
	return true
}

// parseLine parses one logical line for the file.
func (f *File) parseLine(text string) (*Line, error) {
	other, findings := parse(f.Name, f.Kind, text)
	if err := findings.Err(); err != nil {
		return nil, err
	}
	if len(other.Lines) != 1 {
		return nil, errors.New("that would be more than a line")
	}
	return other.Lines[0], nil
}

// replaceBy makes the line what another one is.
func (l *Line) replaceBy(other *Line) {
	l.text, l.Pairs = other.text, other.Pairs
	for i := range l.Pairs {
		l.Pairs[i].line = l
	}
}

// renumber counts the lines anew.
func (f *File) renumber() {
	number := 1
	for _, l := range f.Lines {
		l.number = number
		number += strings.Count(l.text, "\n")
	}
}

// write is a value as it stands in a file: escaped, and between quotation marks if
// it is empty or has white space.
func write(value string, kind Kind) (string, error) {
	if i := strings.IndexAny(value, "\x00\n"); i >= 0 {
		return "", fmt.Errorf("%q cannot be written: want no line ends and no NUL", value)
	}
	if kind == PlugstackConf {
		return value, nil
	}
	escaped := strings.NewReplacer(`\`, `\\`, "#", `\#`).Replace(value)
	if value != "" && !strings.ContainsAny(value, space) {
		return escaped, nil
	}
	if strings.Contains(value, `"`) {
		return "", fmt.Errorf("%q cannot be written: want no quotation mark beside white space", value)
	}
	return `"` + escaped + `"`, nil
}
