package papers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// decisions is the folder of the decisions: a page for each area, and README.md, their index.
const decisions = "docs/design/decisions"

// Decision is one section of a page of decisions.
type Decision struct {
	Number int    // from 1; code, commits and papers name it
	Title  string // the heading without the number
	Page   string // the page's file name, such as elastic.md
	Area   string // the page's title without "Decisions: "
	Status string // "holds", or what the section's first line says, such as "replaced by 294"
	By     []int  // the decisions that have changed or replaced this one
}

var (
	decisionTitle  = regexp.MustCompile(`^## (\d+)\. (.+)$`)
	decisionStatus = regexp.MustCompile(`^Status: (withdrawn|(?:changed|replaced) by (\d+(?:, \d+)*))\.$`)
)

// ReadDecisions reads the decisions of all areas below root, in the order of their numbers.
func ReadDecisions(root string) ([]Decision, error) {
	pages, err := filepath.Glob(filepath.Join(root, decisions, "*.md"))
	if err != nil {
		return nil, err
	}
	var all []Decision
	for _, name := range pages {
		if filepath.Base(name) == "README.md" {
			continue
		}
		p, err := Read(root, decisions+"/"+filepath.Base(name))
		if err != nil {
			return nil, err
		}
		of, err := p.decisions()
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	slices.SortStableFunc(all, func(a, b Decision) int { return a.Number - b.Number })
	return all, nil
}

// decisions are those of one page.
func (p Paper) decisions() ([]Decision, error) {
	var all []Decision
	area := strings.TrimPrefix(p.Lines[0], "# Decisions: ")
	for i, line := range p.Lines {
		if m := decisionTitle.FindStringSubmatch(line); m != nil {
			number, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", p.Path, i+1, err)
			}
			all = append(all, Decision{Number: number, Title: m[2], Page: filepath.Base(p.Path), Area: area, Status: "holds"})
			continue
		}
		if strings.HasPrefix(line, "## ") {
			return nil, fmt.Errorf(`%s:%d: %q is no decision: want "## 12. Title"`, p.Path, i+1, line)
		}
		if !strings.HasPrefix(line, "Status:") {
			continue
		}
		m := decisionStatus.FindStringSubmatch(line)
		if m == nil || i == 0 || !decisionTitle.MatchString(p.Lines[i-1]) {
			return nil, fmt.Errorf(`%s:%d: want "Status: changed by 12.", "Status: replaced by 12." or "Status: withdrawn." right below a decision's heading`,
				p.Path, i+1)
		}
		d := &all[len(all)-1]
		d.Status = m[1]
		for one := range strings.SplitSeq(m[2], ", ") {
			if number, err := strconv.Atoi(one); err == nil { // a withdrawn decision has no number here
				d.By = append(d.By, number)
			}
		}
	}
	return all, nil
}

// MisplacedDecisions are faults of the numbers: one that is there twice or is missing, and a status
// that names no later decision.
func MisplacedDecisions(all []Decision) []string {
	var faults []string
	seen := map[int]bool{}
	for _, d := range all {
		if seen[d.Number] {
			faults = append(faults, fmt.Sprintf("%s: number %d is there twice", d.Page, d.Number))
		}
		seen[d.Number] = true
	}
	last := all[len(all)-1].Number
	for n := 1; n < last; n++ {
		if !seen[n] {
			faults = append(faults, fmt.Sprintf("no decision has number %d", n))
		}
	}
	for _, d := range all {
		for _, by := range d.By {
			if by <= d.Number || by > last {
				faults = append(faults, fmt.Sprintf("%s: number %d cannot be %s", d.Page, d.Number, d.Status))
			}
		}
	}
	return faults
}

// DecisionIndex is the text of the index.
func DecisionIndex(all []Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Decisions

Each decision has a number, which code, commits and papers name. Each area has a page. Long figures
are in [notes](../notes). [The architecture](../README.md) describes what the decisions led to.

**The next decision is number %d.** It goes to the end of its area's page, as "## %[1]d. Title" and a
few lines with the reason. This command writes the index anew:

`+"```sh run=none because=\"TestDecisions compares the index in make charts\"\ngo test ./e2e/papers -run TestDecisions -update\n```"+`

A decision that holds no longer as it was written keeps its place. Below its heading it gets the
line "Status: changed by 12.", "Status: replaced by 12." or "Status: withdrawn.".

| number | decision | area | status |
|---|---|---|---|
`, all[len(all)-1].Number+1)
	for _, d := range all {
		fmt.Fprintf(&b, "| %d | [%s](%s#%s) | %s | %s |\n", d.Number, strings.ReplaceAll(d.Title, "|", "\\|"), d.Page,
			anchor(fmt.Sprintf("%d. %s", d.Number, d.Title)), d.Area, d.Status)
	}
	return b.String()
}

// WriteDecisionIndex writes the index below root.
func WriteDecisionIndex(root string, all []Decision) error {
	return os.WriteFile(filepath.Join(root, decisions, "README.md"), []byte(DecisionIndex(all)), 0o644)
}
