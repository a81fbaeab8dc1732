package hostlist

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSetOperations(t *testing.T) {
	for _, c := range []struct{ a, b, union, difference, intersection string }{
		{"", "", "", "", ""},
		{"n[1-5]", "", "n[1-5]", "n[1-5]", ""},
		{"", "n[1-5]", "n[1-5]", "", ""},
		{"n[1-5]", "n[3-8]", "n[1-8]", "n[1-2]", "n[3-5]"},
		{"n[1-100]", "n[5,7,9-11]", "n[1-100]", "n[1-4,6,8,12-100]", "n[5,7,9-11]"},
		{"n[1-10]", "n[01-10]", "n[1-9,01-10]", "n[1-9]", "n10"},
		{"n3,n1,n2,n1", "n1", "n[1-3]", "n[2-3]", "n1"},
		{"login,n1", "login", "login,n1", "n1", "login"},
		{"nid0000[2-7]", "nid[00005-00012]", "nid[00002-00012]", "nid[00002-00004]", "nid[00005-00007]"},
		{"n0[8-11]", "n[08-09]", "n[08-09,010-011]", "n[010-011]", "n[08-09]"},
		{"n[1-3]x", "n2x", "n1x,n2x,n3x", "n1x,n3x", "n2x"},
		{"rack10n1,rack9n[1-2]", "rack9n2", "rack9n[1-2],rack10n1", "rack9n1,rack10n1", "rack9n2"},
		{"n", "n0", "n,n0", "n", ""},
		{"n1234567890123456789[8-9]", "n123456789012345678[98-99]", "n12[345678901234567898-345678901234567899]", "", "n12[345678901234567898-345678901234567899]"},
		{"n99999999999999999[8-9],n1000000000000000000", "", "n[999999999999999998-999999999999999999],n1000000000000000000", "n[999999999999999998-999999999999999999],n1000000000000000000", ""},
	} {
		t.Run(c.a+" and "+c.b, func(t *testing.T) {
			a, b := setOf(t, c.a), setOf(t, c.b)
			assert.Equal(t, c.union, a.Union(b).String())
			assert.Equal(t, c.difference, a.Difference(b).String())
			assert.Equal(t, c.intersection, a.Intersection(b).String())
			wantAsOf(t, names(a), names(b), a, b)
		})
	}
}

func setOf(t *testing.T, expression string) Set {
	t.Helper()
	l, err := Parse(expression)
	require.NoError(t, err)
	return l.Set()
}

func names(s Set) map[string]bool {
	all := map[string]bool{}
	for name := range s.All() {
		all[name] = true
	}
	return all
}

// wantAsOf compares sets with those that have every host as a key.
func wantAsOf(t *testing.T, a, b map[string]bool, setA, setB Set) {
	t.Helper()
	union, difference, intersection := maps.Clone(a), map[string]bool{}, map[string]bool{}
	maps.Copy(union, b)
	for name := range a {
		if b[name] {
			intersection[name] = true
		} else {
			difference[name] = true
		}
	}
	for _, c := range []struct {
		want map[string]bool
		got  Set
	}{{union, setA.Union(setB)}, {difference, setA.Difference(setB)}, {intersection, setA.Intersection(setB)}, {a, setA}, {b, setB}} {
		assert.Equal(t, slices.Sorted(maps.Keys(c.want)), slices.Sorted(c.got.All()))
		assert.Equal(t, len(c.want), c.got.Len())
	}
}
