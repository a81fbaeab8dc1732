package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

func TestJWKS(t *testing.T) {
	t.Parallel()
	s := newSurroundings(t, "slurmctld")
	put := func(name, text string) string {
		path := filepath.Join(s.dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	second, short := put("2026.key", strings.Repeat("2", 32)), put("short.key", "2")
	first := filepath.Join(s.dir, "conf", "slurm.key")

	have := s.run(t, "jwks", "-expire", "1h", second, first)
	require.Zero(t, have.code, have)
	ring, err := keyring.ParseJWKS([]byte(have.stdout))
	require.NoError(t, err)
	require.Equal(t, []string{"2026", "slurm"}, []string{ring.Signer().Name, ring.Keys[1].Name})
	require.Zero(t, ring.Signer().Expires)
	require.WithinDuration(t, time.Now().Add(time.Hour), ring.Keys[1].Expires, time.Minute)

	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no keys", nil, agent.ExitUsage, "want files with keys"},
		{"a negative duration", []string{"-expire", "-1h", first}, agent.ExitUsage, "no negative duration"},
		{"a file that is not there", []string{first + "x"}, agent.ExitFailure, "cannot read the key: open " + first + "x"},
		{"a short key", []string{short}, agent.ExitFailure, "cannot use the key in " + short + ": want at least 16 bytes"},
		{"a name twice", []string{first, first}, agent.ExitFailure, `another key with the kid "slurm"`},
	} {
		have := s.run(t, append([]string{"jwks"}, c.args...)...)
		require.Equal(t, c.code, have.code, c.name)
		require.Contains(t, have.stderr, c.says, c.name)
		require.Empty(t, have.stdout, c.name)
	}
}
