package papers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// commandsPage is the page that lists the commands of slurmlet.
const commandsPage = "docs/reference/commands.md"

// usageText is what `slurmlet help` prints, in cmd/slurmlet/main.go.
var usageText = regexp.MustCompile("(?s)const usage = `usage: (.*?)`")

// CommandsPage is the text of the page, by what `slurmlet help` prints.
func CommandsPage(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, "cmd", "slurmlet", "main.go"))
	if err != nil {
		return "", err
	}
	m := usageText.FindStringSubmatch(string(source))
	if m == nil {
		return "", fmt.Errorf("cmd/slurmlet/main.go has no usage")
	}
	var b strings.Builder
	b.WriteString("# Commands\n\nWhat `slurmlet help` prints. In a container, `kubectl exec POD -- slurmlet status` runs a command.\n" +
		"[Exit statuses](status.md) says what a command's status means. This command writes the page:\n`go test ./e2e/papers -run TestCommandsPage -update`.\n\n| command | what it does |\n|---|---|\n")
	var rows [][2]string
	for line := range strings.Lines(m[1]) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		command, isCommand := strings.CutPrefix(text, "slurmlet ")
		if isCommand {
			name, meaning, _ := strings.Cut(command, "  ")
			rows = append(rows, [2]string{"slurmlet " + strings.TrimSpace(name), strings.TrimSpace(meaning)})
		} else if len(rows) > 0 && text != "" {
			rows[len(rows)-1][1] = strings.TrimSpace(rows[len(rows)-1][1] + " " + text)
		}
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(r[0], "|", "\\|"), strings.ReplaceAll(r[1], "|", "\\|"))
	}
	return b.String(), nil
}
