package sqfstar

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writes has each write as it has come.
type writes [][]byte

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, bytes.Clone(p))
	return len(p), nil
}

// TestWriter: the end of a tar is one write of its own, however it has come.
func TestWriter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 511, 1024, 1025, most - 1, most, most + 1, 3 * most} {
		var all writes
		var want []byte
		w := writer{to: &all, has: make([]byte, 0, most)}
		for len(want) < size+last {
			part := make([]byte, min(1+random.IntN(70_000), size+last-len(want)))
			for i := range part {
				part[i] = byte(random.Uint32())
			}
			n, err := w.Write(part)
			require.NoError(t, err)
			require.Equal(t, len(part), n)
			want = append(want, part...)
		}
		require.NoError(t, w.end())
		assert.Equal(t, want, bytes.Join(all, nil))
		assert.Len(t, all[len(all)-1], last, size)
	}
}

// TestEndOfArchive: a program that ends where the tar does has got all of it, and the write is no error.
func TestEndOfArchive(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	script := "#!/bin/sh\nexec head -c 1536 >/dev/null\n"
	require.NoError(t, os.WriteFile(program, []byte(script), 0o755)) //nolint:gosec // it is run
	for range 50 {
		to, err := os.Create(filepath.Join(dir, "image"))
		require.NoError(t, err)
		require.NoError(t, Write(context.Background(), program, "image", to, func(out io.Writer) error {
			w := tar.NewWriter(out)
			if err := w.WriteHeader(&tar.Header{Name: "a", Size: 1, Mode: 0o644}); err != nil {
				return err
			}
			if _, err := w.Write([]byte("a")); err != nil {
				return err
			}
			return w.Close()
		}))
		require.NoError(t, to.Close())
	}
}

// TestShortOfMemory: who reads that the program was killed learns what it needs.
func TestShortOfMemory(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nkill -9 $$\n"), 0o755))
	to, err := os.Create(filepath.Join(t.TempDir(), "to"))
	require.NoError(t, err)
	defer to.Close()
	err = Write(t.Context(), program, "a.sqsh", to, func(io.Writer) error { return nil })
	require.EqualError(t, err, "cannot write a.sqsh: "+program+": signal: killed, as where memory is short: it takes up to 256 MiB")
	require.False(t, Cancelled(err))
}
