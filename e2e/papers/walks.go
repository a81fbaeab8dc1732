package papers

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	call     = regexp.MustCompile("`(\\w+)`")
	inFile   = regexp.MustCompile(`\(([\w./-]+)\)`)
	numbered = regexp.MustCompile(`^\d+\. `)
	// drawn is a function in a diagram.
	drawn = regexp.MustCompile(`(\w+)\(\)`)
)

// Walk is a list of functions and other names, in the order in which the program or
// a reader comes through them.
type Walk struct {
	Files []string // each once, in order
	Names []string // of functions and others, in order
	Wrong []string // names that are not in the file that the walk names
}

// Packages are the folders of the walk's files, each once, in order.
func (w Walk) Packages() (all []string) {
	for _, name := range w.Files {
		if dir := path.Dir(name); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// Walk reads the numbered list below a heading. An item has names in backticks, and
// then their file in parentheses. In Go, a name is one of a function, a type, a
// variable, a row of a table or a line of the package comment. Any other file has the
// name somewhere in its text.
func (p Paper) Walk(root, heading string) (Walk, error) {
	var w Walk
	for _, item := range p.items(heading) {
		files := inFile.FindAllStringSubmatchIndex(item, -1)
		from := 0
		for _, at := range files {
			name := item[at[2]:at[3]]
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return w, err
			}
			for _, m := range call.FindAllStringSubmatch(item[from:at[0]], -1) {
				w.Names = append(w.Names, m[1])
				if !named(name, m[1]).Match(text) {
					w.Wrong = append(w.Wrong, fmt.Sprintf("%s has no %s", name, m[1]))
				}
			}
			if !slices.Contains(w.Files, name) {
				w.Files = append(w.Files, name)
			}
			from = at[1]
		}
	}
	return w, nil
}

// named finds a name where the file declares it.
func named(file, name string) *regexp.Regexp {
	if filepath.Ext(file) != ".go" {
		return regexp.MustCompile(`\b` + name + `\b`)
	}
	return regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?` + name + `\(|(?:type|var|const) ` + name + `\b|//\t` + name +
		`\b|\t\{"` + name + `"|\t\{\n\t\t"` + name + `",)`)
}

// items are those of the numbered lists below a heading, each in one line.
func (p Paper) items(heading string) []string {
	var items []string
	below := false
	for _, line := range p.prose() {
		switch {
		case strings.HasPrefix(line, "#"):
			below = strings.TrimLeft(line, "# ") == heading
		case !below || line == "":
		case numbered.MatchString(line):
			items = append(items, line)
		case len(items) > 0 && strings.HasPrefix(line, " "):
			items[len(items)-1] += " " + strings.TrimSpace(line)
		}
	}
	return items
}

// Drawn are the functions in the diagrams below a heading, in Mermaid's language.
func (p Paper) Drawn(heading string) (names []string) {
	below, fenced := false, false
	for _, line := range p.Lines {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = line == "```mermaid"
		case fenced && below:
			for _, m := range drawn.FindAllStringSubmatch(line, -1) {
				names = append(names, m[1])
			}
		case strings.HasPrefix(line, "#"):
			below = strings.TrimLeft(line, "# ") == heading
		}
	}
	return names
}
