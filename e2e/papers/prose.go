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
		base := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))
		name := base
		for n := 1; anchors[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		anchors[name] = true
	}
	return anchors
}

var (
	link = regexp.MustCompile(`\[[^]]*\]\(([^)\s]+)\)`)
	span = regexp.MustCompile("`[^`]*`")
)

// BrokenLinks are the links to files and headings below root that lead nowhere.
// Links to other hosts are not followed.
func (p Paper) BrokenLinks(root string) ([]string, error) {
	var broken []string
	for i, line := range p.prose() {
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(line, "``"), -1) {
			target, err := url.Parse(m[1])
			if err != nil || target.Scheme != "" {
				continue
			}
			to := p
			if target.Path != "" {
				file := path.Join(path.Dir(p.Path), target.Path)
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					broken = append(broken, fmt.Sprintf("%s:%d: no file %s", p.Path, i+1, file))
					continue
				}
				if target.Fragment == "" {
					continue
				}
				if to, err = Read(root, file); err != nil {
					return nil, err
				}
			}
			if !to.Anchors()[target.Fragment] {
				broken = append(broken, fmt.Sprintf("%s:%d: no heading #%s in %s", p.Path, i+1, target.Fragment, to.Path))
			}
		}
	}
	return broken, nil
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
