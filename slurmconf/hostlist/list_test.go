package hostlist

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What scontrol of 24.11.5 and 26.05.5 printed for these expressions: `show
// hostnames`, `show hostlist`, `show hostlistsorted`.
func TestParse(t *testing.T) {
	for _, c := range []struct{ expression, names, list, sorted string }{
		{"", "", "", ""},
		{"login", "login", "login", "login"},
		{"n1", "n1", "n1", "n1"},
		{"n[1-3]", "n1 n2 n3", "n[1-3]", "n[1-3]"},
		{"n[001-003,015]", "n001 n002 n003 n015", "n[001-003,015]", "n[001-003,015]"},
		{"n[8-11]", "n8 n9 n10 n11", "n[8-11]", "n[8-11]"},
		{"n[08-11]", "n08 n09 n10 n11", "n[08-11]", "n[08-11]"},
		{"n[98-101]", "n98 n99 n100 n101", "n[98-101]", "n[98-101]"},
		{"n9,n10", "n9 n10", "n[9-10]", "n[9-10]"},
		{"n9,n010", "n9 n010", "n[9,010]", "n[9,010]"},
		{"n3,n1,n2", "n3 n1 n2", "n[3,1-2]", "n[1-3]"},
		{"n1,n1", "n1 n1", "n[1,1]", "n[1,1]"},
		{"n1,m1,n2", "n1 m1 n2", "n1,m1,n2", "m1,n[1-2]"},
		{"a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4", "a1b[3-4],a2b[3-4]", "a1b[3-4],a2b[3-4]"},
		{"a[1-2]b[3-4]c[5-6]", "a1b3c5 a1b3c6 a2b3c5 a2b3c6 a1b4c5 a1b4c6 a2b4c5 a2b4c6", "a1b3c[5-6],a2b3c[5-6],a1b4c[5-6],a2b4c[5-6]", "a1b3c[5-6],a1b4c[5-6],a2b3c[5-6],a2b4c[5-6]"},
		{"a[1-2]-x", "a1-x a2-x", "a1-x,a2-x", "a1-x,a2-x"},
		{"a[1-2]b3", "a1b3 a2b3", "a1b3,a2b3", "a1b3,a2b3"},
		{"[1-3]", "1 2 3", "[1-3]", "[1-3]"},
		{"[1-2][3-4]", "13 14 23 24", "1[3-4],2[3-4]", "1[3-4],2[3-4]"},
		{"n[1-]", "n1", "n1", "n1"},
		{"n[+1-3]", "n01 n02 n03", "n[01-03]", "n[01-03]"},
		{"n[1a-3]", "n01 n02 n03", "n[01-03]", "n[01-03]"},
		{"n[1-2],,n3, n5", "n1 n2 n3 n5", "n[1-3,5]", "n[1-3,5]"},
		{"a[1[2-3]", "a[12 a[13", "a[1[2-3]", "a[1[2-3]"},
		{"a]b", "a]b", "a]b", "a]b"},
		{"n10,n9,n2", "n10 n9 n2", "n[10,9,2]", "n[2,9-10]"},
		{"n[1-5],n[3-8]", "n1 n2 n3 n4 n5 n3 n4 n5 n6 n7 n8", "n[1-5,3-8]", "n[1-3,3-4,4-5,5-8]"},
		{"rack10n1,rack9n1", "rack10n1 rack9n1", "rack10n1,rack9n1", "rack9n1,rack10n1"},
		{"switch{s1}", "switch{s1}", "switch{s1}", "switch{s1}"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			l, err := Parse(c.expression)
			require.NoError(t, err)
			assert.Equal(t, c.names, strings.Join(slices.Collect(l.All()), " "))
			assert.Equal(t, c.list, l.String())
			assert.Equal(t, c.sorted, l.Sorted().String())
			count, err := Count(c.expression)
			require.NoError(t, err)
			assert.EqualValues(t, count, l.Len())
			assert.Equal(t, len(strings.Fields(c.names)), l.Len())
		})
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	for expression, want := range map[string]string{
		"n[1":                     `"n[1" has no ] after its last [`,
		"n[]":                     `"" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[1,,2]":                 `"" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[a-b]":                  `"a-b" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[1x4]":                  `"1x4" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[1--3]":                 `"1--3" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[-3]":                   `"-3" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[1-2-3]":                `"1-2-3" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[5-3]":                  `"5-3" begins with its greater number`,
		"a[x]b[1]c[2]":            `"x" is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them`,
		"n[99999999999999999999]": `too great a number: "99999999999999999999", allowed are numbers up to 18446744073709551615`,
		long:                      `too long: "` + long[:80] + `"… gives a name of 256 bytes, allowed are 255`,
	} {
		_, err := Parse(expression)
		assert.EqualError(t, err, "cannot expand hostlist "+quote(expression)+": "+want)
		_, err = Count(expression)
		assert.EqualError(t, err, "cannot count hostlist "+quote(expression)+": "+want)
	}
}

// Each would take gigabytes, or for ever, if it were expanded.
func TestTooManyHostsAreRefusedAtOnce(t *testing.T) {
	for expression, want := range map[string]string{
		"n[0-999999999]x[0-999999999]":              `the range "0-999999999" is of more than 65536`,
		"n[0-65536]":                                `the range "0-65536" is of more than 65536`,
		"n[0-18446744073709551615]":                 `the range "0-18446744073709551615" is of more than 65536`,
		"n[0-65535,0]x[1]":                          `a bracket before the last one of "n[0-65535,0]x[1]" gives 65537 numbers, allowed are 65536`,
		"n[0-65535]x[0-65535]":                      `it gives 4294967296, allowed are 1048576`,
		"n[0-65535]x[0-65535]y":                     `it gives 4294967296, allowed are 1048576`,
		"a[0-65535][0-65535][0-65535][0-65535]":     `"a[0-65535][0-65535][0-65535][0-65535]" gives more than can be counted, allowed are 1048576`,
		"n[" + strings.Repeat("1,", 256<<10) + "1]": `a bracket has 262145 ranges, allowed are 262144`,
	} {
		t.Run(quote(expression), func(t *testing.T) {
			allocated := testing.AllocsPerRun(1, func() {
				_, err := Parse(expression)
				assert.ErrorIs(t, err, ErrTooMany)
				assert.EqualError(t, err, "cannot expand hostlist "+quote(expression)+": too many hosts: "+want)
			})
			assert.Less(t, allocated, 300.0)
		})
	}
	n, err := Count("n[0-65535]x[0-65535]")
	require.NoError(t, err)
	assert.EqualValues(t, 1<<32, n)
}

func TestListFindsHosts(t *testing.T) {
	l, err := Parse("n[08-11],login,rack0[1-12],n9,n[08-09]")
	require.NoError(t, err)
	for i, name := range slices.Collect(l.All()) {
		nth, ok := l.Nth(i)
		assert.True(t, ok)
		assert.Equal(t, name, nth)
	}
	for name, index := range map[string]int{
		"n08": 0, "n11": 3, "login": 4, "rack01": 5, "rack012": 16, "n9": 17,
		"n8": -1, "n011": -1, "n12": -1, "log": -1, "login1": -1, "rack1": -1, "rack013": -1, "n": -1, "": -1, "n+9": -1,
	} {
		assert.Equal(t, index, l.Index(name), name)
		assert.Equal(t, index >= 0, l.Contains(name), name)
		assert.Equal(t, index >= 0, l.Set().Contains(name), name)
	}
	_, ok := l.Nth(l.Len())
	assert.False(t, ok)
	_, ok = l.Nth(-1)
	assert.False(t, ok)
}

func TestOf(t *testing.T) {
	assert.Equal(t, "n[1-3],login,n[1-2],a[[12-13]", Of(slices.Values([]string{"n1", "n2", "n3", "login", "n1", "n2", "a[12", "a[13"})).String())
}

func TestConcat(t *testing.T) {
	a, _ := Parse("n[1-2],m")
	b, _ := Parse("n1,n[3-4]")
	assert.Equal(t, "n[1-2],m,n[1,3-4]", Concat(a, b).String())
	assert.Equal(t, 6, Concat(a, b).Len())
	assert.Equal(t, "n[1-2],m", a.String())
}

func BenchmarkMillionHosts(b *testing.B) {
	const million = "rack[0-15]n[00000-62499]"
	l, err := Parse(million)
	require.NoError(b, err)
	require.Equal(b, 1_000_000, l.Len())
	names := slices.Collect(l.All())
	shuffled := make([]string, 0, len(names))
	for i := range names {
		shuffled = append(shuffled, names[i*7919%len(names)])
	}
	for _, c := range []struct {
		name string
		run  func() int
	}{
		{"count", func() int { n, _ := Count(million); return int(n) }},
		{"parse", func() int { l, _ := Parse(million); return l.Len() }},
		{"expand", func() (n int) {
			for range l.All() {
				n++
			}
			return n
		}},
		{"compress", func() int { return Of(slices.Values(names)).Len() }},
		{"compress, shuffled", func() int { return Of(slices.Values(shuffled)).Set().List().Len() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := c.run(); n != 1_000_000 {
					b.Fatal(fmt.Sprint(n))
				}
			}
		})
	}
}
