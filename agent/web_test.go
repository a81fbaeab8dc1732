package agent

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBounded: the listener takes the next connection when one of the others is closed, and ends
// when all are closed.
func TestBounded(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	b, in := bounded{l, make(chan struct{}, 2)}, make(chan net.Conn)
	go func() {
		defer close(in)
		for {
			conn, err := b.Accept()
			if err != nil {
				return
			}
			in <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		defer conn.Close()
	}
	first, second := <-in, <-in
	select {
	case <-in:
		require.Fail(t, "three connections are open")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, first.Close())
	require.Error(t, first.Close())
	third := <-in
	require.Len(t, b.places, 2)
	require.NoError(t, l.Close())
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
	_, more := <-in
	require.False(t, more)
	require.Empty(t, b.places)
}

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
