package launcher

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKind(t *testing.T) {
	k := Kind{Dir: filepath.Join(t.TempDir(), "beds"), What: "bed", Up: "up", Down: "down"}
	down := func(name string) error {
		assert.Equal(t, "dead", name)
		return k.Remove(name)
	}
	assert.NoError(t, k.Check("a-1"))
	assert.EqualError(t, k.Check("../a"), `bed name "../a": want a-z, 0-9 and -, at most 32 characters`)
	assert.EqualError(t, k.Absent("a"), `no bed "a" is up; make one with up`)
	assert.NoError(t, k.Free("a", down))

	cmd := exec.CommandContext(t.Context(), "sleep", "60") // ends with the test
	require.NoError(t, cmd.Start())
	l, err := found(cmd.Process.Pid)
	require.NoError(t, err)
	for _, name := range []string{"dead", "alive"} {
		require.NoError(t, os.MkdirAll(k.Path(name), 0o755))
		assert.True(t, k.Has(name))
	}
	require.NoError(t, l.write(k.Path("alive")))
	assert.EqualError(t, k.Absent("a"), `no bed "a" is up; there are: alive dead`)
	assert.EqualError(t, k.Free("alive", down), `bed "alive" is up already: use it, or end it with down`)
	assert.NoError(t, k.Free("dead", down))
	assert.False(t, k.Has("dead"))

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NoError(t, k.Remove("alive"))
	assert.NoDirExists(t, k.Dir, "the last one removes it")
}
