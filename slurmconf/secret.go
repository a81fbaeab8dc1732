package slurmconf

import (
	"slices"
	"strings"
)

// Hidden stands where a secret would.
const Hidden = "(hidden)"

// IsSecret says whether a key is one whose value nobody may read, in any file: StoragePass,
// AccountingStoragePass, JobCompPass, DefaultStoragePass, EnergyIPMIPassword, ProfileInfluxDBPass and what
// may have been meant for one of them. The path of a script that prints a password is no secret.
func IsSecret(key string) bool {
	key = strings.ToLower(key)
	if strings.HasSuffix(key, "script") {
		return false
	}
	for _, part := range []string{"pass", "pwd", "httpauthparam"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return strings.HasSuffix(key, "pas")
}

// Hide takes the secrets out of a text that may quote lines of a configuration: what
// follows Key= until the line's end, and the password of a URL.
func Hide(text string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		body := strings.TrimSuffix(line, "\n")
		b.WriteString(hideURL(hideAssigned(hideUnread(body))))
		b.WriteString(line[len(body):])
	}
	return b.String()
}

// hideUnread: Slurm's parser quotes what it has not understood of a line, without the key.
func hideUnread(line string) string {
	const complaint = "Parse error in file "
	at := strings.Index(line, complaint)
	if at < 0 {
		return line
	}
	quoted := strings.Index(line[at:], `: "`)
	if quoted < 0 {
		return line
	}
	return line[:at+quoted+2] + Hidden
}

func hideAssigned(line string) string {
	for at := 0; ; {
		i := strings.IndexByte(line[at:], '=')
		if i < 0 {
			return line
		}
		at += i + 1
		if IsSecret(lastWord(line[:at-1])) {
			return line[:at] + Hidden
		}
	}
}

func lastWord(text string) string {
	text = strings.TrimRight(text, space+`"'`)
	return text[strings.LastIndexAny(text, space+`"',;:=`)+1:]
}

// hideURL hides the password of a URL, as in JobCompLoc=http://user:password@host.
func hideURL(line string) string {
	for at := 0; ; {
		i := strings.Index(line[at:], "://")
		if i < 0 {
			return line
		}
		at += i + len("://")
		end := at + len(line[at:])
		if i := strings.IndexAny(line[at:], space+`"'/`); i >= 0 {
			end = at + i
		}
		host := strings.LastIndexByte(line[at:end], '@')
		if user := strings.IndexByte(line[at:end], ':'); host > user && user >= 0 {
			line = line[:at+user+1] + Hidden + line[at+host:]
		}
	}
}

// Hide takes out of findings what they quote of lines that have a secret somewhere.
// Who judges a Set calls it.
func (s *Set) Hide(findings Findings) {
	secret := map[Position]bool{}
	for _, f := range s.Files {
		f.secretLines(secret)
	}
	for i := range findings {
		f := &findings[i]
		if secret[Position{File: f.File, Line: f.Line}] {
			f.What = hideQuoted(f.What)
			if strings.Count(f.Want, `"`) > 1 { // a single one is what is wanted
				f.Want = hideQuoted(f.Want)
			}
		}
		f.What, f.Want = Hide(f.What), Hide(f.Want)
	}
}

// secretLines adds the lines with what may be a secret.
func (f *File) secretLines(found map[Position]bool) {
	text, line := f.String(), 1
	for text != "" {
		raw, seen := readLogical(text)
		n := max(strings.Count(raw, "\n"), 1)
		if mentionsSecret(seen.text) {
			for i := range n {
				found[Position{File: f.Name, Line: line + i}] = true
			}
			// What was meant for this line may stand on the next one.
			found[Position{File: f.Name, Line: line + n}] = true
		}
		text, line = text[len(raw):], line+n
	}
}

func mentionsSecret(line string) bool {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(space+"=\"'", r) })
	return slices.ContainsFunc(words, IsSecret)
}

// hideQuoted takes out all from the first quotation mark to the last.
func hideQuoted(text string) string {
	first, last := strings.IndexByte(text, '"'), strings.LastIndexByte(text, '"')
	switch {
	case first < 0:
		return text
	case first == last:
		return text[:first] + Hidden
	}
	return text[:first] + Hidden + text[last+1:]
}
