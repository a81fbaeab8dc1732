package slurm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzClaims: whatever squeue prints, a node that a list names by itself is found, or nothing is said of any.
func FuzzClaims(f *testing.F) {
	f.Add(claims, "n-5")
	f.Add("7|7|n[1-3,5]|||PD\n", "n2")
	f.Add("7|7|n[1|||PD\n", "n1")
	f.Add("7|7|a,b|c|d|CG\n||||\n", "c")
	f.Fuzz(func(t *testing.T, text, node string) {
		all, err := parseClaims(text)
		if err != nil {
			return
		}
		named, err := Named(all, []string{node})
		if err != nil {
			return
		}
		held, err := Held(all, []string{node})
		if err != nil || strings.ContainsAny(node, "[],| \n") || node == "" {
			return
		}
		for i := range all {
			for _, list := range []string{all[i].Nodes, all[i].Excluded} {
				require.False(t, slices.Contains(strings.Split(list, ","), node) && !strings.Contains(list, "[") && named[node] == "", "%q", list)
			}
			holds := all[i].Holds
			require.False(t, slices.Contains(strings.Split(holds, ","), node) && !strings.Contains(holds, "[") && !held[node], "%q", holds)
		}
	})
}
