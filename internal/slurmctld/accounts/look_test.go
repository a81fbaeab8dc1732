package accounts

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts/planner"
)

// told is a slurmdbd: its answers are lines of columns by what is asked, and what is not given is empty.
type told map[string][]string

func (a told) AccountingRows(_ context.Context, columns []string, show ...string) (rows [][]string, err error) {
	names := strings.Split(a["columns of "+show[0]][0], "|")
	for _, line := range a[show[0]] {
		values := map[string]string{}
		for i, value := range strings.Split(line, "|") {
			values[names[i]] = value
		}
		row := make([]string, 0, len(columns))
		for _, column := range columns {
			row = append(row, values[column])
		}
		if show[0] == "users" && !slices.Contains(strings.Split(strings.TrimPrefix(show[2], "Names="), ","), row[0]) {
			continue
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (a told) Coordinators(context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	for _, line := range a["coordinators"] {
		account, names, _ := strings.Cut(line, "|")
		all[account] = strings.FieldsFunc(names, func(c rune) bool { return c == ',' })
	}
	return all, nil
}

func (a told) ChangeAccounting(context.Context, []string) error { panic("nothing may change") }
func (a told) ChangeAccount(context.Context, string) error      { panic("nothing may change") }

// site has an account of another cluster, a user of it, and a user's second account at the end.
func site() told {
	return told{
		"columns of associations": {"Account|User|Partition|ParentName|MaxJobs"},
		"associations": {
			"root||||", "root|root|||", "science|||root|9", "science|anna|||", "science|ben|many||", "chem|||science|", "chem|anna|||",
		},
		"columns of accounts": {"Account|User|Partition|Cluster|Organization|Description"},
		"accounts": {
			"root|||c1|root|default", "root|root||c1|root|default", "elsewhere||||uni|other", "chem|||c1|uni|chemists", "chem|anna||c1|uni|chemists",
			"science|||c1|uni|all", "science|anna||c1|uni|all", "science|ben|many|c1|uni|all",
		},
		"coordinators":     {"root|", "science|anna", "chem|"},
		"columns of users": {"User|DefaultAccount|AdminLevel"},
		"users":            {"anna|science|Operator", "root|root|Administrator", "yves||None", "zoe||None", "ben|science|None"},
		"columns of qos":   {"Name|Description"},
		"qos":              {"normal|Normal QOS default"},
		"columns of tres":  {"Type|Name"},
		"tres":             {"cpu|", "mem|", "gres|gpu"},
	}
}

// TestLook: what lacks a row that it must have is no answer, so nothing is made or taken away by it.
func TestLook(t *testing.T) {
	file := &planner.File{Tables: planner.Tables{{Kind: planner.Association, Name: "zoe", Account: "chem"}: {}}}
	whole, known, err := look(t.Context(), site(), "c1", file)
	require.NoError(t, err)
	assert.Equal(t, []string{"cpu", "mem", "gres/gpu"}, known)
	assert.Len(t, whole, 12)
	assert.Equal(t, map[string]string{"Parent": "root", "MaxJobs": "9", "Organization": "uni", "Description": "all", "Coordinators": "anna"},
		whole[planner.Key{Kind: planner.Account, Name: "science"}].Values)
	for _, show := range []string{"associations", "accounts", "coordinators", "users", "qos", "tres"} {
		for cut := range len(site()[show]) {
			answers := site()
			answers[show] = answers[show][:cut]
			now, _, err := look(t.Context(), answers, "c1", file)
			if show == "tres" && cut > 0 { // an unknown TRES is a fault of the file, which changes nothing
				continue
			}
			assert.Errorf(t, err, "%s has %q only, and %d entities are taken from it", show, answers[show], len(now))
		}
	}
	answers := site()
	answers["users"] = slices.Clone(answers["users"])
	for i, line := range answers["users"] { // slurmdbd's query of the default accounts has failed
		user, rest, _ := strings.Cut(line, "|")
		_, level, _ := strings.Cut(rest, "|")
		answers["users"][i] = user + "||" + level
	}
	_, _, err = look(t.Context(), answers, "c1", file)
	require.ErrorContains(t, err, "default account")
}
