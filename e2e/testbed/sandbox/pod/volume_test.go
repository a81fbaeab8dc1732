package pod

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVolume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	v := Volume{Name: "v", Path: "/v", Mode: 0o1777, UID: os.Getuid(), GID: os.Getgid(), Files: map[string]File{"key": {Data: []byte("secret"), Mode: 0o600}}}
	require.NoError(t, makeVolume(dir, v))
	assert.Equal(t, os.ModeDir|os.ModeSticky|0o777, modeOf(t, dir))
	assert.Equal(t, os.FileMode(0o600), modeOf(t, filepath.Join(dir, "key")))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("changed"), 0o600))
	require.NoError(t, makeVolume(dir, v), "it is there already")
	assert.Equal(t, "changed", content(t, filepath.Join(dir, "key")))
}

func TestProjectedVolume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	v := Volume{Name: "v", Path: "/v", Projected: true, UID: os.Getuid(), GID: os.Getgid(), Files: map[string]File{"a": {Data: []byte("1")}, "b": {Data: []byte("2")}}}
	require.NoError(t, makeVolume(dir, v))
	link, err := os.Readlink(filepath.Join(dir, "a"))
	require.NoError(t, err)
	assert.Equal(t, "..data/a", link)
	assert.Equal(t, "1", content(t, filepath.Join(dir, "a")))
	before, err := os.Readlink(filepath.Join(dir, "..data"))
	require.NoError(t, err)

	v.Files = map[string]File{"a": {Data: []byte("3")}, "c": {Data: []byte("4")}}
	require.NoError(t, writeFiles(dir, v, time.Now().Add(time.Second)))
	assert.Equal(t, "3", content(t, filepath.Join(dir, "a")))
	assert.Equal(t, "4", content(t, filepath.Join(dir, "c")))
	assert.NoFileExists(t, filepath.Join(dir, "b"))
	assert.NoDirExists(t, filepath.Join(dir, before))
}

func modeOf(t *testing.T, path string) os.FileMode {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Mode()
}

func content(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
