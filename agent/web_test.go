package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadTokenKey: the agent takes tokens only where slurmctld does, and where every user may see
// the page.
func TestReadTokenKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "slurm.conf")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jwt.key"), []byte("the key"), 0o600))
	const types, parameters = "AuthAltTypes=auth/jwt", "AuthAltParameters=max_token_lifespan=60,jwt_key=DIR/jwt.key"
	for _, c := range []struct {
		name, says string
		lines      []string
	}{
		{"both", "", []string{types, parameters}},
		{"PrivateData=none", "", []string{types, parameters, "PrivateData=none"}},
		{"no AuthAltTypes", "no auth/jwt", []string{parameters}},
		{"another type", "no auth/jwt", []string{"AuthAltTypes=auth/munge", parameters}},
		{"no key", "no jwt_key", []string{types}},
		{"PrivateData", "PrivateData", []string{types, parameters, "PrivateData=jobs"}},
		{"a fault", "faults", []string{types, parameters, "PrivateData jobs"}},
		{"an Include that is gone", "faults", []string{types, parameters, "Include private.conf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(strings.Join(append([]string{"ClusterName=c"}, c.lines...), "\n")+"\n", "DIR", dir)
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			key, err := readTokenKey(file)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "the key", string(key))
		})
	}
	_, err := readTokenKey(filepath.Join(dir, "none", "slurm.conf"))
	require.Error(t, err)
}
