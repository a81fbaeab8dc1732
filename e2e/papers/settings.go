package papers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Setting is an environment variable of the agent, as a paper describes it.
type Setting struct {
	Name    string
	Roles   string // separated by commas, or "all"
	Default string // or "required"
}

func (s Setting) String() string { return s.Name + " | " + s.Roles + " | " + s.Default }

var (
	// A line of the package comment ends with the roles and the default in parentheses.
	settingLine = regexp.MustCompile(`(?m)^//\t(SLURMLET_\w+) .*\((?:([a-z, ]+)(?:; |: ))??(?:default: ([^()]*)|(required))\)$`)
	settingHead = regexp.MustCompile(`(?m)^//\t(SLURMLET_\w+) `)
	settingRow  = regexp.MustCompile("^\\| `(SLURMLET_\\w+)` \\| ([^|]*) \\| ([^|]*) \\|")
)

// Settings are those that the agent's package comment lists.
func Settings(root string) ([]Setting, error) {
	text, err := os.ReadFile(filepath.Join(root, "agent", "doc.go"))
	if err != nil {
		return nil, err
	}
	var all []Setting
	for _, m := range settingLine.FindAllStringSubmatch(string(text), -1) {
		all = append(all, Setting{m[1], m[2], m[3] + m[4]})
		if m[2] == "" {
			all[len(all)-1].Roles = "all"
		}
	}
	for _, m := range settingHead.FindAllStringSubmatch(string(text), -1) {
		if !slices.ContainsFunc(all, func(s Setting) bool { return s.Name == m[1] }) {
			return nil, fmt.Errorf("agent/doc.go: the line of %s does not end with the roles and the default in parentheses", m[1])
		}
	}
	return all, nil
}

// Settings are those of the paper's table.
func (p Paper) Settings() []Setting {
	var all []Setting
	for _, line := range p.Lines {
		if m := settingRow.FindStringSubmatch(line); m != nil {
			all = append(all, Setting{m[1], m[2], strings.Trim(m[3], "`")})
		}
	}
	return all
}

// Differences says which settings of the agent the paper lacks, has besides, or
// describes with other roles or another default.
func (p Paper) Differences(settings []Setting) []string {
	var all []string
	rows := p.Settings()
	byName := func(name string) func(Setting) bool { return func(s Setting) bool { return s.Name == name } }
	for _, want := range settings {
		switch i := slices.IndexFunc(rows, byName(want.Name)); {
		case i < 0:
			all = append(all, fmt.Sprintf("%s has no row for %s", p.Path, want))
		case rows[i] != want:
			all = append(all, fmt.Sprintf("%s has %s, and agent/doc.go has %s", p.Path, rows[i], want))
		}
	}
	for _, have := range rows {
		if !slices.ContainsFunc(settings, byName(have.Name)) {
			all = append(all, fmt.Sprintf("%s has %s, and agent/doc.go does not", p.Path, have))
		}
	}
	return all
}
