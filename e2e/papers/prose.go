package papers

import (
	"fmt"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is the longest line, in characters.
const width = 100

// Long are the lines that are too long. Rows of tables and lines with a URL may be.
func (p Paper) Long() []string {
	var long []string
	for i, line := range p.Lines {
		if n := utf8.RuneCountInString(line); n > width && !strings.HasPrefix(line, "|") && !strings.Contains(line, "://") {
			long = append(long, fmt.Sprintf("%s:%d: %d characters", p.Path, i+1, n))
		}
	}
	return long
}

// Indented are the lines of code blocks without a fence, which nothing can mark.
func (p Paper) Indented() []string {
	var found []string
	for i, line := range p.prose() {
		if strings.HasPrefix(line, "    ") && i > 0 && strings.TrimSpace(p.Lines[i-1]) == "" && !p.inList(i) {
			found = append(found, fmt.Sprintf("%s:%d: %s", p.Path, i+1, line))
		}
	}
	return found
}

// inList says whether the last line before i that is not indented begins a list's item.
func (p Paper) inList(i int) bool {
	for i--; i >= 0; i-- {
		if line := p.Lines[i]; line != "" && line[0] != ' ' {
			return item.MatchString(line)
		}
	}
	return false
}

var item = regexp.MustCompile(`^([-*]|\d+\.) `)

// prose yields the lines outside of fenced blocks, by their index.
func (p Paper) prose() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		fenced := false
		for i, line := range p.Lines {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			} else if !fenced && !yield(i, line) {
				return
			}
		}
	}
}

// Anchors are the names that links to the paper's headings have on GitHub.
func (p Paper) Anchors() map[string]bool {
	anchors := map[string]bool{}
	for _, line := range p.prose() {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		base := anchor(heading)
		name := base
		for n := 1; anchors[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		anchors[name] = true
	}
	return anchors
}

// anchor is the name that GitHub gives to a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

var (
	link = regexp.MustCompile(`\[[^]]*\]\(([^)\s]+)\)`)
	span = regexp.MustCompile("`[^`]*`")
)

// BrokenLinks are the links to files and headings below root that lead nowhere.
// Links to other hosts are not followed.
func (p Paper) BrokenLinks(root string) ([]string, error) {
	var broken []string
	text := p.withoutCode()
	for _, at := range link.FindAllStringSubmatchIndex(text, -1) {
		line, target := 1+strings.Count(text[:at[0]], "\n"), text[at[2]:at[3]]
		why, err := p.broken(root, target)
		if err != nil {
			return nil, err
		}
		if why != "" {
			broken = append(broken, fmt.Sprintf("%s:%d: %s", p.Path, line, why))
		}
	}
	return broken, nil
}

// broken says why a link leads nowhere, empty if it leads somewhere.
func (p Paper) broken(root, to string) (string, error) {
	target, err := url.Parse(to)
	if err != nil || target.Scheme != "" {
		return "", err
	}
	if target.Path != "" {
		file := path.Join(path.Dir(p.Path), target.Path)
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return "no file " + file, nil
		}
		if target.Fragment == "" {
			return "", nil
		}
		if p, err = Read(root, file); err != nil {
			return "", err
		}
	}
	if !p.Anchors()[target.Fragment] {
		return fmt.Sprintf("no heading #%s in %s", target.Fragment, p.Path), nil
	}
	return "", nil
}

// withoutCode is the text with empty lines for fenced blocks, and nothing in its spans of code.
func (p Paper) withoutCode() string {
	lines := make([]string, len(p.Lines))
	for i, line := range p.prose() {
		lines[i] = span.ReplaceAllString(line, "``")
	}
	return strings.Join(lines, "\n")
}

// Code yields what is written as code: fenced blocks line by line, and spans in backticks.
func (p Paper) Code() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		fenced := false
		for i, line := range p.Lines {
			switch {
			case strings.HasPrefix(line, "```"):
				fenced = !fenced
			case fenced:
				if !yield(i, line) {
					return
				}
			default:
				for _, code := range span.FindAllString(line, -1) {
					if !yield(i, strings.Trim(code, "`")) {
						return
					}
				}
			}
		}
	}
}
