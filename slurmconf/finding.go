package slurmconf

import (
	"cmp"
	"slices"
	"strings"
)

// Severity says what Slurm does about a finding.
type Severity int

const (
	// Info: Slurm does what the file says; somebody may want to know what that is.
	Info Severity = iota + 1
	// Warning: Slurm reads on, and does something else than was meant.
	Warning
	// Error: Slurm refuses the configuration, or nobody should give it to Slurm.
	Error
)

func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return "unknown"
}

// MarshalText writes the name, for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that is wrong with a configuration.
type Finding struct {
	Position
	Severity Severity `json:"severity"`
	// Rule is a short stable name for this kind of finding, such as "syntax".
	Rule string `json:"rule"`
	// What is wrong, with the value as it stands there.
	What string `json:"what"`
	// Want is what is allowed instead, empty where What says it already.
	Want string `json:"want,omitempty"`
}

// Error is the finding in one line, as compilers write it.
func (f Finding) Error() string {
	text := f.String() + ": " + f.Severity.String() + ": " + f.What
	if f.Want != "" {
		text += ": want " + f.Want
	}
	return text
}

// Findings is everything that was found. It is not an error by itself: a Warning
// is none, and nil Findings are no nil error. Ask Err.
type Findings []Finding

// Err is nil unless one of them is an Error: then it is those that are.
func (all Findings) Err() error {
	var errs Findings
	for _, f := range all {
		if f.Severity == Error {
			errs = append(errs, f)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// Error is all of them, one a line.
func (all Findings) Error() string {
	lines := make([]string, len(all))
	for i, f := range all {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Sort puts them in the order of files, lines and columns.
func (all Findings) Sort() {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
