package imagecache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// digest is that of an image of these tests.
func digest(n int) string { return fmt.Sprintf("sha256:%064d", n) }

func newCache(t *testing.T, limit int64) Cache {
	t.Helper()
	c := Of(t.TempDir(), 1000, limit)
	require.NoError(t, os.MkdirAll(c.Dir, 0o700))
	return c
}

// put adds an image of 10 bytes, used so many hours ago.
func put(t *testing.T, c Cache, n, hours int) {
	t.Helper()
	require.NoError(t, os.WriteFile(c.Path(digest(n)), []byte("0123456789"), 0o600))
	used := time.Now().Add(-time.Duration(hours) * time.Hour)
	require.NoError(t, os.Chtimes(c.Path(digest(n)), used, used))
}

func there(t *testing.T, c Cache) (all []string) {
	t.Helper()
	images, err := c.List()
	require.NoError(t, err)
	for _, i := range images {
		all = append(all, strings.TrimLeft(strings.TrimPrefix(i.Digest, "sha256:"), "0"))
	}
	return all
}

func TestEvict(t *testing.T) {
	for name, test := range map[string]struct {
		limit, room int64
		use         []int
		want        []string
	}{
		"enough room":                  {limit: 40, want: []string{"4", "3", "2", "1"}},
		"the longest unused goes":      {limit: 30, want: []string{"3", "2", "1"}},
		"a use makes it the last":      {limit: 20, use: []int{4}, want: []string{"1", "4"}},
		"what is in use stays":         {limit: 5, use: []int{3, 4}, want: []string{"3", "4"}},
		"room for another one":         {limit: 40, room: 15, want: []string{"2", "1"}},
		"room for one above the limit": {limit: 40, room: 100, use: []int{2}, want: []string{"2"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, test.limit)
			for n := 1; n <= 4; n++ {
				put(t, c, n, n)
			}
			for _, n := range test.use {
				held, err := c.Hold(digest(n))
				require.NoError(t, err)
				defer held.Close()
			}
			if test.room > 0 {
				require.NoError(t, c.MakeRoom(test.room))
			} else {
				require.NoError(t, c.Evict())
			}
			assert.Equal(t, test.want, there(t, c))
		})
	}
}

// TestMakeRoomOnTheDisk: nothing fits beside what the disk does not have.
func TestMakeRoomOnTheDisk(t *testing.T) {
	c := newCache(t, 1<<62)
	put(t, c, 1, 1)
	var disk unix.Statfs_t
	require.NoError(t, unix.Statfs(c.Dir, &disk))
	require.NoError(t, c.MakeRoom(int64(disk.Bavail)*disk.Bsize/2))
	assert.Equal(t, []string{"1"}, there(t, c))
	require.NoError(t, c.MakeRoom(int64(disk.Bavail)*disk.Bsize*2))
	assert.Empty(t, there(t, c))
}

func TestRemove(t *testing.T) {
	c := newCache(t, 0)
	put(t, c, 1, 1)
	require.NoError(t, c.Remember(Known{Reference: "a:1", Digest: digest(9), Image: digest(1)}))
	held, err := c.Hold(digest(1))
	require.NoError(t, err)
	all, err := c.List()
	require.NoError(t, err)
	assert.True(t, all[0].InUse)
	assert.Equal(t, []string{"a:1"}, all[0].References)
	require.ErrorIs(t, c.Remove(digest(1)), ErrInUse)
	require.NoError(t, held.Close())
	require.NoError(t, c.Remove(digest(1)))
	require.Error(t, c.Remove(digest(1)))
	gone, err := c.Hold(digest(1))
	require.NoError(t, err)
	assert.Nil(t, gone)
	assert.Equal(t, Known{}, c.Recall("a:1"))
}

// TestHoldWhileItIsRemoved: who opens a file that another process is about to remove takes none that has no name.
func TestHoldWhileItIsRemoved(t *testing.T) {
	c := newCache(t, 0)
	put(t, c, 1, 1)
	remover, err := os.Open(c.Path(digest(1)))
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(remover.Fd()), unix.LOCK_EX))
	held := make(chan *os.File)
	go func() {
		f, err := c.Hold(digest(1))
		assert.NoError(t, err)
		held <- f
	}()
	require.NoError(t, os.Remove(c.Path(digest(1))))
	require.NoError(t, remover.Close())
	assert.Nil(t, <-held)
}

func TestKnown(t *testing.T) {
	c := newCache(t, 0)
	put(t, c, 1, 1)
	put(t, c, 2, 1)
	long := "registry.example/" + strings.Repeat("a/", 200) + ":1"
	for _, k := range []Known{{Reference: "a:1", Digest: digest(8), Image: digest(1)}, {Reference: long, Digest: digest(2), Image: digest(2)}, {Reference: "a:1", Digest: digest(9), Image: digest(2)}, {Reference: "gone", Digest: digest(7), Image: digest(7)}} {
		require.NoError(t, c.Remember(k))
	}
	assert.Equal(t, Known{Reference: "a:1", Digest: digest(9), Image: digest(2)}, c.Recall("a:1"))
	assert.Equal(t, digest(2), c.Recall(long).Image)
	assert.Equal(t, Known{}, c.Recall("gone"))
	assert.Equal(t, Known{}, c.Recall("a:2"))
	old := time.Now().Add(-time.Hour)
	for _, path := range []string{c.knownPath("gone"), c.knownPath("a:1"), c.knownPath("cut")} {
		if path == c.knownPath("cut") {
			require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		}
		require.NoError(t, os.Chtimes(path, old, old))
	}
	require.NoError(t, c.Remember(Known{Reference: "new", Digest: digest(7), Image: digest(7)})) // another step is about to have it
	c.forget()
	entries, err := os.ReadDir(c.refs())
	require.NoError(t, err)
	assert.Len(t, entries, 3)
}

// TestBegin: of twenty that want an image at once, one makes it.
func TestBegin(t *testing.T) {
	c := newCache(t, 0)
	var made, waited atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			p, err := c.Begin(t.Context(), digest(1), func() { waited.Add(1) })
			if !assert.NoError(t, err) {
				return
			}
			defer p.End()
			held, err := c.Hold(digest(1))
			assert.NoError(t, err)
			if held != nil {
				_ = held.Close()
				return
			}
			made.Add(1)
			file := filepath.Join(p.Dir(), "image")
			assert.NoError(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Rename(file, c.Path(digest(1)))))
		})
	}
	all.Wait()
	assert.Equal(t, int32(1), made.Load())
	assert.LessOrEqual(t, waited.Load(), int32(19))
	entries, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// TestOnce: of twenty nodes of a step one asks, and one more only after that has failed. Another step asks again.
func TestOnce(t *testing.T) {
	c := newCache(t, 0)
	put(t, c, 1, 1)
	var asked, waited atomic.Int32
	ask := func(step string) func() (Known, error) {
		return func() (Known, error) {
			asked.Add(1)
			k := Known{Reference: "a:1", Digest: digest(9), Image: digest(1), Step: step}
			return k, c.Remember(k)
		}
	}
	play := func(step string) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				k, err := c.Once(t.Context(), "a:1", step, func() { waited.Add(1) }, ask(step))
				assert.NoError(t, err)
				assert.Equal(t, digest(1), k.Image)
			})
		}
		all.Wait()
	}
	play("7.0")
	assert.Equal(t, int32(1), asked.Load())
	play("7.1")
	assert.Equal(t, int32(2), asked.Load())

	refused, both := make(chan struct{}), make(chan error, 2)
	fail := func() (Known, error) {
		asked.Add(1)
		<-refused
		return c.Recall("b:1"), errors.ErrUnsupported
	}
	before := asked.Load()
	for range 2 {
		go func() {
			_, err := c.Once(t.Context(), "a:1", "8.0", func() { close(refused) }, fail)
			both <- err
		}()
	}
	require.ErrorIs(t, <-both, errors.ErrUnsupported)
	require.ErrorIs(t, <-both, errors.ErrUnsupported)
	assert.Equal(t, int32(2), asked.Load()-before)
	locks, err := filepath.Glob(filepath.Join(c.refs(), "*"+lockEnd))
	require.NoError(t, err)
	assert.Empty(t, locks)
}

func TestBeginEnds(t *testing.T) {
	c := newCache(t, 0)
	p, err := c.Begin(t.Context(), digest(1), func() {})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.Begin(ctx, digest(1), cancel)
	require.ErrorIs(t, err, context.Canceled)
	p.End()
}

// TestDead: what a puller has left that was killed goes with the next pull, of any image. One that lives keeps its own.
func TestDead(t *testing.T) {
	c := newCache(t, 0)
	dead, err := c.Begin(t.Context(), digest(1), func() {})
	require.NoError(t, err)
	alive, err := c.Begin(t.Context(), digest(2), func() {})
	require.NoError(t, err)
	for _, p := range []*Pull{dead, alive} {
		require.NoError(t, os.WriteFile(filepath.Join(p.Dir(), "part"), nil, 0o600))
	}
	require.NoError(t, dead.lock.Close()) // as its end does
	next, err := c.Begin(t.Context(), digest(3), func() {})
	require.NoError(t, err)
	assert.NoDirExists(t, dead.Dir())
	assert.NoFileExists(t, dead.lock.Name())
	assert.FileExists(t, filepath.Join(alive.Dir(), "part"))
	next.End()
	alive.End()
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestCheck(t *testing.T) {
	c := newCache(t, 0)
	require.NoError(t, c.Check())
	require.NoError(t, os.Chmod(c.Dir, 0o750))
	require.ErrorContains(t, c.Check(), "mode 0700")
	require.NoError(t, os.Remove(c.Dir))
	require.ErrorContains(t, c.Check(), "no such file")
	require.NoError(t, os.Symlink("/", c.Dir))
	require.ErrorContains(t, c.Check(), "to be a directory")
	if os.Getuid() == 0 {
		require.NoError(t, os.Remove(c.Dir))
		require.NoError(t, os.Mkdir(c.Dir, 0o700))
		require.NoError(t, os.Chown(c.Dir, 4321, 4321))
		require.ErrorContains(t, c.Check(), "of user 4321")
	}
}
