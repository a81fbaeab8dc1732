package papers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var (
	deadlineLine = regexp.MustCompile(`(?m)^//\t([\d.]+ s)  +(\d[\dhms.]*)  +(\d[\dhms.]*)  +\S`)
	deadlineRow  = regexp.MustCompile(`^\| (\d[^|]*) \| (\d[^|]*) \| (\d[^|]*) \|$`)
	deadlineText = regexp.MustCompile(`grace\s+period\s+is\s+(\d+\s+s)\s+here,\s+of\s+which\s+a\s+job\s+gets\s+(\d+)`)
	units        = strings.NewReplacer("minutes", "m", "min", "m", " ", "")
)

// Deadlines are the rows of the table of agent/doc.go: a deadline for each of
// three grace periods.
func Deadlines(root string) ([][3]time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(root, "agent", "doc.go"))
	if err != nil {
		return nil, err
	}
	var rows [][3]time.Duration
	for _, m := range deadlineLine.FindAllStringSubmatch(string(text), -1) {
		row, err := durations(m[1:])
		if err != nil {
			return nil, fmt.Errorf("agent/doc.go: cannot read %q: %w", m[0], err)
		}
		rows = append(rows, [3]time.Duration(row))
	}
	return rows, nil
}

// Deadlines are the rows of the paper's table: a grace period, the part that jobs
// get, and the rest. A sentence that names the first two is a row too.
func (p Paper) Deadlines() ([][3]time.Duration, error) {
	var rows [][3]time.Duration
	for _, line := range p.Lines {
		if m := deadlineRow.FindStringSubmatch(line); m != nil {
			if row, err := durations(m[1:]); err == nil { // a table of something else otherwise
				rows = append(rows, [3]time.Duration(row))
			}
		}
	}
	for _, m := range deadlineText.FindAllStringSubmatch(strings.Join(p.Lines, "\n"), -1) {
		row, err := durations([]string{m[1], m[2] + " s"})
		if err != nil {
			return nil, err
		}
		rows = append(rows, [3]time.Duration{row[0], row[1], row[0] - row[1]})
	}
	return rows, nil
}

// durations reads "8m44s" and "8 min 44 s".
func durations(texts []string) ([]time.Duration, error) {
	var all []time.Duration
	for _, text := range texts {
		d, err := time.ParseDuration(units.Replace(strings.TrimSpace(text)))
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}
