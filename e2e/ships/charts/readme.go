package charts

import (
	"fmt"
	"strings"
)

// tableBegin is where a chart's README goes over to what is generated.
const tableBegin = "<!-- what follows is made from values.yaml: make charts UPDATE=1 -->\n"

// readme returns text with the table of values in the place of what it had.
func readme(text string, values []value) (string, error) {
	written, _, found := strings.Cut(text, tableBegin)
	if !found {
		return "", fmt.Errorf("cannot make a README: it has no line %q", strings.TrimSpace(tableBegin))
	}
	var b strings.Builder
	b.WriteString(written + tableBegin + "\n| value | default | |\n|---|---|---|\n")
	for _, v := range values {
		given := "`" + v.given + "`"
		if v.section {
			given = "a section"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.path, given, strings.ReplaceAll(v.about, "|", `\|`))
	}
	return b.String(), nil
}
