// Package report writes findings about a configuration for people and for the
// programs that show them beside the text.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// Writer writes findings in one format.
type Writer func(io.Writer, slurmconf.Findings) error

// Formats are the Writers by the names of their formats.
var Formats = map[string]Writer{"text": Text, "json": JSON, "sarif": SARIF, "github": GitHub}

// Text is a line for each finding, as compilers write them.
func Text(w io.Writer, findings slurmconf.Findings) error {
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, f.Error()); err != nil {
			return err
		}
	}
	return nil
}

// JSON is an array of the findings, empty if there are none.
func JSON(w io.Writer, findings slurmconf.Findings) error {
	if findings == nil {
		findings = slurmconf.Findings{}
	}
	return writeJSON(w, findings)
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// GitHub is a workflow command for each finding, which GitHub Actions shows beside
// the line. https://docs.github.com/actions/reference/workflow-commands-for-github-actions
func GitHub(w io.Writer, findings slurmconf.Findings) error {
	for _, f := range findings {
		command := map[slurmconf.Severity]string{
			slurmconf.Info: "notice", slurmconf.Warning: "warning",
			slurmconf.Error: "error",
		}[f.Severity]
		at := "file=" + property(f.File)
		if f.Line > 0 {
			at += fmt.Sprintf(",line=%d", f.Line)
		}
		if f.Column > 0 {
			at += fmt.Sprintf(",col=%d", f.Column)
		}
		if _, err := fmt.Fprintf(w, "::%s %s,title=%s::%s\n", command, at, property(f.Rule), message.Replace(said(f))); err != nil {
			return err
		}
	}
	return nil
}

// The runner takes these apart before it reads what is between them.
var message = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(message.Replace(s))
}

// said is the finding without its place.
func said(f slurmconf.Finding) string {
	if f.Want == "" {
		return f.What
	}
	return f.What + ": want " + f.Want
}
