package authkeys

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

func TestFindKeys(t *testing.T) {
	me := []uint32{uint32(os.Geteuid())}
	put := func(dir, name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("k"), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	none, dir := t.TempDir(), t.TempDir()
	_, err := Find([]string{none, dir}, me)
	require.ErrorContains(t, err, "cannot find the cluster's key: there is neither "+none+"/slurm.key nor "+none+"/slurm.jwks nor "+dir+"/slurm.key")

	put(dir, keyring.JWKSFile, 0o440) // as a Secret's volume has it for fsGroup
	found, err := Find([]string{none, dir}, me)
	require.NoError(t, err)
	require.Equal(t, dir, found)
	_, err = Find([]string{dir}, []uint32{me[0] + 1})
	require.ErrorContains(t, err, "belongs to uid")
	require.ErrorContains(t, err, "want root or SlurmUser")

	open := put(dir, keyring.KeyFile, 0o644)
	_, err = Find([]string{dir}, me)
	require.ErrorContains(t, err, open+" has mode 0644")
	require.ErrorContains(t, err, "want 0600")
}

// TestKeysAreFollowed: what the rest of the cluster would not understand is refused,
// told, and not copied.
func TestKeysAreFollowed(t *testing.T) {
	k := New(t.TempDir(), filepath.Join(t.TempDir(), "keys"), os.Geteuid(), os.Getegid(), []uint32{uint32(os.Geteuid())})
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(k.copy.From, name), []byte(text), 0o600))
	}
	const old, other = "an old key of the cluster's", "another key, of another one"
	write(keyring.KeyFile, old)
	changed, err := k.copy.Sync()
	require.NoError(t, err)
	require.Equal(t, []string{keyring.KeyFile}, changed)
	first := k.status.Load()
	require.Equal(t, &KeysStatus{Signs: "slurm.key", Accepts: []KeyStatus{{Name: "slurm.key"}}, Since: first.Since}, first)
	require.WithinDuration(t, time.Now(), first.Since, time.Minute)

	write(keyring.KeyFile, other)
	_, err = k.copy.Sync()
	require.ErrorContains(t, err, "cannot take the keys in "+k.copy.From)
	require.Contains(t, k.status.Load().Refused, `slurmlet jwks`)
	copied, err := os.ReadFile(filepath.Join(k.copy.To, keyring.KeyFile))
	require.NoError(t, err)
	require.Equal(t, old, string(copied))

	former, err := keyring.NewKey("former", []byte(old), time.Time{})
	require.NoError(t, err)
	second, err := keyring.NewKey("second", []byte(other), time.Now().Add(time.Hour))
	require.NoError(t, err)
	jwks, err := (&keyring.Ring{Keys: []keyring.Key{former, second}}).MarshalJWKS()
	require.NoError(t, err)
	write(keyring.JWKSFile, string(jwks))
	_, err = k.copy.Sync()
	require.NoError(t, err)
	now := k.status.Load()
	require.Equal(t, []any{"former", 2, ""}, []any{now.Signs, len(now.Accepts), now.Refused})
	require.NotNil(t, now.Accepts[1].Expires)

	require.NoError(t, os.RemoveAll(k.copy.From))
	_, err = k.copy.Sync()
	require.Error(t, err)
	require.Equal(t, now, k.status.Load(), "what cannot be read is not gone")
}
