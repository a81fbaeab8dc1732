package papers

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var (
	deadlineLine = regexp.MustCompile(`^\| ([\d.]+ s) \| (\d[\dhms.]*) \| (\d[\dhms.]*) \| .* \|$`)
	deadlineRow  = regexp.MustCompile(`^\| (\d[^|]*) \| (\d[^|]*) \| (\d[^|]*) \|$`)
	deadlineText = regexp.MustCompile(`grace\s+period\s+is\s+(\d+\s+s)\s+here,\s+of\s+which\s+a\s+job\s+gets\s+(\d+)`)
	units        = strings.NewReplacer("minutes", "m", "min", "m", " ", "")
)

// Deadlines are the rows of the table of docs/reference/end.md: a deadline for each of
// three grace periods.
func Deadlines(root string) ([][3]time.Duration, error) {
	p, err := Read(root, "docs/reference/end.md")
	if err != nil {
		return nil, err
	}
	var rows [][3]time.Duration
	for _, line := range p.Lines {
		m := deadlineLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		row, err := durations(m[1:])
		if err != nil {
			return nil, fmt.Errorf("%s: cannot read %q: %w", p.Path, line, err)
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
