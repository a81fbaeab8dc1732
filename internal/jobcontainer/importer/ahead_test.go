package importer

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadAhead: what is read ahead is the same, in pieces of any size, and ends with the same error.
func TestReadAhead(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, piece - 1, piece, piece + 1, 7*piece + 3} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(random.Uint32())
		}
		for name, from := range map[string]io.Reader{
			"whole": bytes.NewReader(want), "halves": iotest.HalfReader(bytes.NewReader(want)), "data and its end at once": iotest.DataErrReader(bytes.NewReader(want)),
		} {
			a := readAhead(from)
			got, err := io.ReadAll(a)
			require.NoError(t, err, name)
			assert.True(t, bytes.Equal(want, got), name)
			_, err = a.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			a.end()
		}
		a := readAhead(io.MultiReader(bytes.NewReader(want), iotest.ErrReader(errors.ErrUnsupported)))
		got, err := io.ReadAll(a)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		assert.True(t, bytes.Equal(want, got))
		a.end()
	}
}

// endless has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestReadAheadEnds: who needs no more ends what reads ahead, at any place.
func TestReadAheadEnds(t *testing.T) {
	for _, read := range []int{0, 1, piece, 5 * piece} {
		a := readAhead(endless{})
		_, err := io.CopyN(io.Discard, a, int64(read))
		require.NoError(t, err)
		a.end()
		a.end()
	}
}
