package unixsocket

import (
	"net"
	"path/filepath"
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
	b, in := Bound(l, 2), make(chan net.Conn)
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
