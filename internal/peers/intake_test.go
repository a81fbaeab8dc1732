package peers

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unfinished sends a report with a token, without its last byte.
func (c *controller) unfinished(token string, body []byte) net.Conn {
	conn, err := tls.Dial("tcp", c.addr, &tls.Config{InsecureSkipVerify: true})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(c.t, conn.SetDeadline(time.Now().Add(limit)))
	_, _ = fmt.Fprintf(conn, "POST /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, len(body)+1)
	_, _ = conn.Write(body) // the server may end it at any time
	return conn
}

// patient is longer than a server takes to end a connection.
const patient = 10 * time.Second

// ended says whether the server has ended a connection.
func ended(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(patient))
	_, err := io.Copy(io.Discard, conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestOneReportOfOnePod: connections of one token hold one body together, and another cluster is heard meanwhile.
func TestOneReportOfOnePod(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.Sync()
	body := bytes.Repeat([]byte(" "), 4<<20) // JSON may begin with them
	const many = 24
	var conns []net.Conn
	for range many {
		conns = append(conns, c.unfinished("evil/pod/slurmctld", body))
	}
	for _, conn := range conns[:many-1] {
		require.True(t, ended(conn), "a later report of the pod takes its place")
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	assert.Less(t, m.HeapAlloc>>20, uint64(32), "MiB of %d unfinished reports", many)
	text := "{\"whole\":true,\"nodes\":[{\"name\":\"n\",\"state\":\"idle\"}]}"
	assert.Equal(t, "HTTP/1.1 204 No Content", c.request(fmt.Sprintf("POST /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good/u/slurmctld\r\nContent-Length: %d\r\n\r\n%s", len(text), text)))
}
