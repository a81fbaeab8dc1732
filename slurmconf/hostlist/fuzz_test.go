package hostlist

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzParse holds: what is counted is expanded; what is written is read again as
// the same hosts, whatever order they are in; a set has each of them once.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"n[001-010,015],login", "a[1-2]b[3-4]c[5-6]x", "n9,n010,n[8-11]", "[1-2][3-4]", "a[1[2-3]", "n[1a-3]", "n[1-5],n[3-8]",
		"n[0-999999999]x[0-999999999]", "nid0000[2-7]", "n[1,\t2]", "a,,b c\nd", "x[1", "n99999999999999999999",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		count, countErr := Count(expression)
		if countErr == nil && count > 5000 {
			return
		}
		l, err := Parse(expression)
		require.Equal(t, countErr == nil, err == nil)
		hosts := slices.Collect(l.All())
		require.Len(t, hosts, int(count))
		require.Len(t, hosts, l.Len())
		sameHosts(t, hosts, l.Sorted())
		if !slices.ContainsFunc(hosts, isOdd) {
			again, err := Parse(l.String())
			require.NoError(t, err)
			assert.Equal(t, hosts, slices.Collect(again.All()))
		}
		assert.Equal(t, hosts, slices.Collect(Of(slices.Values(hosts)).All()))
		slices.Sort(hosts)
		assert.Equal(t, slices.Compact(hosts), slices.Sorted(l.Set().All()))
	})
}

func sameHosts(t *testing.T, hosts []string, l List) {
	assert.Equal(t, slices.Sorted(slices.Values(hosts)), slices.Sorted(l.All()))
}

// isOdd tells of a name that Slurm takes and prints so that it reads another.
func isOdd(name string) bool {
	return slices.ContainsFunc([]byte(name), func(c byte) bool { return c == '[' || c == ']' })
}

// FuzzSet compares sets with maps of names.
func FuzzSet(f *testing.F) {
	f.Add("n[1-100]", "n[5,7,9-11],n05")
	f.Add("nid0000[2-7],login", "nid[00005-00012]")
	f.Add("n[1-3]x,rack10n1", "n2x,[98-101]")
	f.Add("n99999999999999999[8-9]", "n[9999999999999999998-9999999999999999999]")
	f.Fuzz(func(t *testing.T, a, b string) {
		setA, namesA := parseSmall(t, a)
		setB, namesB := parseSmall(t, b)
		wantAsOf(t, namesA, namesB, setA, setB)
	})
}

func parseSmall(t *testing.T, expression string) (Set, map[string]bool) {
	if n, err := Count(expression); err != nil || n > 2000 {
		t.Skip()
	}
	l, err := Parse(expression)
	require.NoError(t, err)
	all := map[string]bool{}
	for name := range l.All() {
		all[name] = true
	}
	return l.Set(), all
}
