package clusterview

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadShares: as sshare prints a tree of accounts, with Fair Tree.
func TestReadShares(t *testing.T) {
	all, err := readShares(strings.NewReader(`root|||1|0.000000|1234567|0.000000|1.000000|
 root|root||1|0.500000|0|0.000000|0.000000|1.000000
 physics|||parent|0.500000|1234567|1.000000|1.000000|
  physics|ann||10|0.250000|1234567|1.000000|0.750000|0.333333
  physics|ann|gpu|10|0.250000|5|1.000000|0.750000|0.333333
`))
	require.NoError(t, err)
	for i := range all {
		if all[i].User == "" {
			assert.True(t, math.IsNaN(all[i].FairShare))
			all[i].FairShare = 0
		}
	}
	assert.Equal(t, []Share{
		{Account: "root", Shares: 1, RawUsage: 1234567, EffectiveUsage: 1},
		{Account: "root", User: "root", Shares: 1, NormShares: .5, FairShare: 1},
		{Account: "physics", NormShares: .5, RawUsage: 1234567, NormUsage: 1, EffectiveUsage: 1},
		{Account: "physics", User: "ann", Shares: 10, NormShares: .25, RawUsage: 1234567, NormUsage: 1, EffectiveUsage: .75, FairShare: .333333},
	}, all)

	all, err = readShares(strings.NewReader(""))
	require.NoError(t, err)
	assert.Empty(t, all, "a cluster without slurmdbd has no associations")

	_, err = readShares(strings.NewReader("root|||1|0.0\n"))
	require.ErrorContains(t, err, `want 9 columns of an association, not "root|||1|0.0"`)
	_, err = readShares(strings.NewReader("root|||1|x|0|0|0|0\n"))
	require.ErrorContains(t, err, `cannot read NormShares="x" of account "root"`)
}

// TestSharesAreWanted: sshare is asked only where somebody wants to know.
func TestSharesAreWanted(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		c := newCluster(t, "26.05")
		o := c.collector().o
		o.Shares = wanted
		v := New(o).Get(t.Context(), 0)
		assert.True(t, v.Up())
		assert.Equal(t, wanted, c.count("sshare") == 1)
		_, read := v.Readings[FamilyShares]
		assert.Equal(t, wanted, read)
	}
}
