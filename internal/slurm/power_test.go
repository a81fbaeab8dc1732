package slurm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoweredUp(t *testing.T) {
	for _, c := range []struct{ name, said, up, fault string }{
		{"states of 24.11.5 and 26.05.5", "allocated+cloud+dynamic_norm+not_responding+powering_up|cpu-2|\nidle+cloud+dynamic_norm+powered_down|cpu-[3-5]|\nallocated+cloud+dynamic_norm|cpu-[0-1]|\n", "cpu-[0-1]", ""},
		{"columns have blanks", "idle |a |\n", "a", ""},
		{"a node of two partitions", "idle+powering_down|a|\nidle|a,b|\n", "b", ""},
		{"none of them has a record", "", "", ""},
		{"another answer", "sinfo: what\n", "", "want a state and nodes"},
		{"no host list", "idle|a[|\n", "", "cannot read the nodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up, err := readPoweredUp(strings.NewReader(c.said))
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.up, up.String())
		})
	}
}

func TestConfiguring(t *testing.T) {
	found := map[string]bool{}
	require.NoError(t, readInState(strings.NewReader("5 CONFIGURING\n6 RUNNING\n8 COMPLETING\n  7 CONFIGURING \n"), "CONFIGURING", found))
	require.Equal(t, map[string]bool{"5": true, "7": true}, found)
	require.ErrorContains(t, readInState(strings.NewReader("5\n"), "CONFIGURING", found), "want a job and its state")
}

func TestStates(t *testing.T) {
	states := map[string]string{}
	require.NoError(t, readStates(strings.NewReader("5 5 N/A PENDING\n9 7 2 RUNNING\n7 7 3 PENDING\n"), states))
	require.Equal(t, map[string]string{"5": "PENDING", "9": "RUNNING", "7": "PENDING", "7_2": "RUNNING", "7_3": "PENDING"}, states)
	require.ErrorContains(t, readStates(strings.NewReader("5 RUNNING\n"), states), "want a job")
}
