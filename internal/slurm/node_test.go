package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withSinfo gives a scontrol a sinfo that answers so.
func withSinfo(t *testing.T, s Scontrol, stdout, stderr, status string) Scontrol {
	one := scontrol(t, stdout, stderr, status)
	s.Sinfo = filepath.Join(filepath.Dir(one.Path), "sinfo")
	require.NoError(t, os.Rename(one.Path, s.Sinfo))
	return s
}

func TestGlance(t *testing.T) {
	for _, version := range []string{"24.11", "26.05"} {
		t.Run(version, func(t *testing.T) {
			s := withSinfo(t, Scontrol{}, recorded(t, "sinfo-"+version+".json"), "", "0")
			n, err := s.Glance(t.Context(), "n1")
			require.NoError(t, err)
			assert.Equal(t, "--all --nodes=n1 --json\n", calls(t, Scontrol{Path: s.Sinfo}))
			assert.Equal(t, []any{"n1", 1, 1, int64(300), ""}, []any{n.Name, n.CPUs, n.CPUsEffective, n.RealMemory, string(n.SpecializedCPUs)})
			assert.Equal(t, []any{1, 1, 1, 1}, []any{n.Sockets, n.Cores, n.Threads, n.Weight})
			assert.Equal(t, NodeState{"IDLE", "DYNAMIC_NORM"}, n.State)
			assert.Contains(t, n.Extra, `{"slurmlet":"2026-`)
			assert.Empty(t, n.Features)
			assert.True(t, n.SlurmdStartAt.IsZero(), "sinfo does not tell")

			none, err := withSinfo(t, Scontrol{}, recorded(t, "sinfo-none-"+version+".json"), "", "0").Glance(t.Context(), "nosuch")
			require.NoError(t, err)
			assert.Nil(t, none, "a partition's row without a node is none")
		})
	}
}

// TestOddNodes: sinfo tells of a node what scontrol does.
func TestOddNodes(t *testing.T) {
	row := strings.NewReplacer(`"cpus": ""`, `"cpus": "0-3"`, `"description": ""`, `"description": "it's \"bad\""`, `"total": ""`, `"total": "b,a"`).
		Replace(recorded(t, "sinfo-26.05.json"))
	n, err := withSinfo(t, Scontrol{}, row, "", "0").Glance(t.Context(), "n1")
	require.NoError(t, err)
	assert.Equal(t, "0-3", string(n.SpecializedCPUs))
	assert.Equal(t, n.CPUs-4, n.CPUsEffective)
	assert.Equal(t, []string{"b", "a"}, n.Features)
	assert.Equal(t, "b,a", n.Gres)
	assert.Equal(t, `it's "bad"`, n.Reason)
}

// TestNodeThatSinfoDoesNotShow: a node may be in no partition, so scontrol is asked. Silence is
// no answer.
func TestNodeThatSinfoDoesNotShow(t *testing.T) {
	none := recorded(t, "sinfo-none-26.05.json")
	s := withSinfo(t, scontrol(t, recorded(t, "node-26.05.json"), "", "0"), none, "", "0")
	n, err := s.Node(t.Context(), "n1")
	require.NoError(t, err)
	require.Equal(t, "n1", n.Name)
	require.Equal(t, "show node n1 --json\n", calls(t, s))

	gone, err := withSinfo(t, scontrol(t, `{"nodes": []}`, "", "0"), none, "", "0").Node(t.Context(), "n1")
	require.NoError(t, err)
	require.Nil(t, gone)

	unreachable := "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n"
	_, err = withSinfo(t, scontrol(t, "", "scontrol: error: "+unreachable, "1"), none, "", "0").Node(t.Context(), "n1")
	require.ErrorIs(t, err, ErrUnreachable)
	_, err = withSinfo(t, scontrol(t, `{"nodes": []}`, "", "0"), "", unreachable, "1").Node(t.Context(), "n1")
	require.ErrorIs(t, err, ErrUnreachable)
	for _, answer := range []string{"{}", `{"sinfo": null}`, "", "[]"} {
		_, err = withSinfo(t, scontrol(t, `{"nodes": []}`, "", "0"), answer, "", "0").Node(t.Context(), "n1")
		require.ErrorContains(t, err, "cannot read the answer of sinfo", answer)
	}
}
