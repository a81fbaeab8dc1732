package agent

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReference holds the table of docs/reference/settings.md to the variables, or writes it.
func TestReference(t *testing.T) {
	const path, head = "../docs/reference/settings.md", "| variable | role | default | meaning |\n|---|---|---|---|\n"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, table, found := strings.Cut(string(text), head)
	require.True(t, found)
	_, after, _ := strings.Cut(table, "\n\n")
	var want strings.Builder
	for _, v := range variables {
		require.NotEmpty(t, v.text, v.name)
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", v.name, cmp.Or(v.rolesInWords(), "all"), v.fallbackInWords(), v.text)
	}
	if *update {
		if after != "" {
			after = "\n" + after
		}
		require.NoError(t, os.WriteFile(path, []byte(before+head+want.String()+after), 0o644))
		return
	}
	require.Equal(t, strings.TrimRight(want.String(), "\n"), strings.TrimRight(strings.TrimSuffix(table, after), "\n"), "variables.go (expected) and %s (actual); -update writes it", path)
}

// inWords are the defaults that depend on the machine or the role.
var inWords = map[string]string{
	"SLURMLET_NODE_NAME":    "the host name",
	"SLURMLET_CONF_SOURCES": "`SLURMLET_CONF_DIR`",
	"SLURMLET_DAEMON":       "the role's name, looked up in PATH",
}

func (v variable) rolesInWords() string {
	var roles []string
	for _, r := range v.roles {
		roles = append(roles, string(r))
	}
	return strings.Join(roles, ", ")
}

func (v variable) fallbackInWords() string {
	if slices.ContainsFunc(v.roles, v.required) {
		return "required"
	}
	return cmp.Or(inWords[v.name], v.fallback, "none")
}

// required: a role does not do without.
func (v variable) required(role Role) bool {
	enough := []string{"SLURMLET_NODE_NAME=n1", "SLURMLET_SLURMCTLD=ctl"}
	without := slices.DeleteFunc(enough, func(entry string) bool { return strings.HasPrefix(entry, v.name+"=") })
	_, err := FromEnv(role, without)
	return v.fallback == "" && err != nil
}
