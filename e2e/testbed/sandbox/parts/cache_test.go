package parts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func silent(string, ...any) {}

func TestKeys(t *testing.T) {
	assert.Regexp(t, "^[0-9a-f]{12}$", keyOf("a"))
	assert.Equal(t, keyOf("a", "b"), keyOf("a", "b"))
	different := map[string]bool{}
	for _, inputs := range [][]string{nil, {""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"c", "ab"}} {
		different[keyOf(inputs...)] = true
	}
	assert.Len(t, different, 6)
}

func TestAnEntryIsMadeOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("SLURMLET_CACHE", cache)
	var made atomic.Int32
	build := func(dir string) error {
		made.Add(1)
		time.Sleep(20 * time.Millisecond) // the others are to meet the lock
		return os.WriteFile(filepath.Join(dir, "thing"), []byte("complete"), 0o600)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			dir, err := entry{name: "thing", key: "k"}.obtain(t.Context(), silent, build)
			assert.NoError(t, err)
			assert.Equal(t, filepath.Join(cache, "thing-k"), dir)
			assert.FileExists(t, filepath.Join(dir, "thing"))
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, made.Load())

	_, err := entry{name: "thing", key: "other"}.obtain(t.Context(), silent, build)
	require.NoError(t, err)
	assert.EqualValues(t, 2, made.Load(), "another key is another entry")
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("SLURMLET_CACHE", cache)
	broken := errors.New("broken")
	e := entry{name: "thing", key: "k"}
	_, err := e.obtain(t.Context(), silent, func(dir string) error {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "half"), nil, 0o600))
		return broken
	})
	require.ErrorIs(t, err, broken)
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Equal(t, "thing.lock", left[0].Name())
}

func TestWhatADeadBuildLeftIsRemoved(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("SLURMLET_CACHE", cache)
	dead := filepath.Join(cache, "thing.building-1", "deep")
	other := filepath.Join(cache, "thing-2.building-1")
	require.NoError(t, os.MkdirAll(dead, 0o755))
	require.NoError(t, os.MkdirAll(other, 0o755))
	_, err := entry{name: "thing", key: "k"}.obtain(t.Context(), silent, func(string) error { return nil })
	require.NoError(t, err)
	assert.NoDirExists(t, dead)
	assert.DirExists(t, other, "that is another entry's")
}

func TestTheLockWaitsAndSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, func() { t.Error("nobody has it") })
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	waited := 0
	_, err = Lock(ctx, path, func() { waited++ })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, 1, waited)

	second := make(chan error, 1)
	go func() {
		release, err := Lock(t.Context(), path, unlock)
		if err == nil {
			release()
		}
		second <- err
	}()
	assert.NoError(t, <-second)
}
