package papers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	call     = regexp.MustCompile("`(\\w+)`")
	inFile   = regexp.MustCompile(`\(([\w/]+\.go)\)`)
	numbered = regexp.MustCompile(`^\d+\. `)
)

// Walk is a list of functions in the order in which the program comes through them.
type Walk struct {
	Files []string // each once, in order
	Wrong []string // functions that are not in the file that the walk names
}

// Walk reads the numbered list below a heading. An item names functions in
// backticks, and then their file in parentheses.
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
				if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + m[1] + `\(`).Match(text) {
					w.Wrong = append(w.Wrong, fmt.Sprintf("%s has no function %s", name, m[1]))
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
