package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCheckFiles: an agent takes nothing that no ConfigMap can have.
func TestCheckFiles(t *testing.T) {
	many := map[string]string{}
	for n := range mostFiles + 1 {
		many[fmt.Sprint(n)] = ""
	}
	data := func(names ...string) map[string]string {
		all := map[string]string{}
		for _, name := range names {
			all[name] = ""
		}
		return all
	}
	for name, c := range map[string]struct {
		files Files
		says  string // empty: it is taken
	}{
		"one":                   {Files{Name: "slurm", ResourceVersion: 1, Data: data("slurm.conf", "a-b_C.9", ".x")}, ""},
		"nothing in it":         {Files{Name: "slurm", ResourceVersion: 1}, ""},
		"no name":               {Files{ResourceVersion: 1}, "it has no name"},
		"no version":            {Files{Name: "slurm"}, "it has no resourceVersion"},
		"another directory":     {Files{Name: "slurm", ResourceVersion: 1, Data: data("a/b")}, `"a/b" is no name of a file`},
		"the directory above":   {Files{Name: "slurm", ResourceVersion: 1, Data: data("..")}, `".." is no name of a file`},
		"the kubelet's link":    {Files{Name: "slurm", ResourceVersion: 1, Data: data("..data")}, `"..data" is no name`},
		"no name of a file":     {Files{Name: "slurm", ResourceVersion: 1, Data: data("")}, `"" is no name of a file`},
		"a line's end":          {Files{Name: "slurm", ResourceVersion: 1, Data: data("a\nb")}, "is no name of a file"},
		"too many files":        {Files{Name: "slurm", ResourceVersion: 1, Data: many}, "it has 1001 files"},
		"too large":             {Files{Name: "slurm", ResourceVersion: 1, Data: map[string]string{"a": strings.Repeat("x", mostFileBytes+1)}}, "have 1048577 bytes"},
		"too many former ones":  {Files{Name: "slurm", ResourceVersion: 1, Former: make([]Version, mostFormer+1)}, "it has 65 former versions"},
		"a digest without ends": {Files{Name: "slurm", ResourceVersion: 1, Former: []Version{{1, strings.Repeat("x", 1000)}}}, "is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.files.Check()
			if c.says == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.says)
			}
		})
	}
}
