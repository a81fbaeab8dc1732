package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// form is a request with a body that never ends, if more of it is promised than comes.
func form(method string, promised int, part string) string {
	return fmt.Sprintf("%s /conf HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n"+
		"--b\r\nContent-Disposition: form-data; name=\"unlike\"%s\r\n\r\n", method, promised, part)
}

// hold sends one text on each of many connections, and keeps them until the test's end.
func hold(t *testing.T, address, text string, many int) {
	t.Helper()
	for range many {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, text)
		require.NoError(t, err)
	}
}

// TestFeedIsNotHung: whoever reaches the port asks for the configuration, and takes for ever to say what is known of it.
// There is nothing to tell them yet, so that they would wait in any case. Edits go on.
func TestFeedIsNotHung(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, given{role: "slurmctld", env: []string{"SLURMLET_LISTEN=" + port}, files: map[string]string{"down": ""}})
	c.await(phase{name: "slurmctld does not answer yet", want: []condition{probes(200, 503, 503)}})
	hold(t, port, form("GET", 1<<20, ""), 200)
	drop("down")(c)
	c.await(phase{name: "it is Ready", want: []condition{isReady, last("first")}})
	for _, name := range []string{"second", "third"} {
		hold(t, port, form("POST", 1<<20, ""), 20)
		edit("slurm.conf", conf(name))(c)
		c.await(phase{name: name + " is live", want: []condition{last(name), kept(name), notRefused}})
	}
}

// TestFeedSpillsNothing: what strangers send is in no file.
func TestFeedSpillsNothing(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	spill := t.TempDir()
	c := start(t, given{role: "slurmctld", env: []string{"SLURMLET_LISTEN=" + port, "TMPDIR=" + spill}, files: map[string]string{"down": ""}})
	c.await(phase{name: "slurmctld does not answer yet", want: []condition{probes(200, 503, 503)}})
	const size = 40 << 20
	for range 2 {
		conn, err := net.Dial("tcp", port)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, form("GET", 2*size, "; filename=\"x\""))
		require.NoError(t, err)
		_ = conn.SetWriteDeadline(time.Now().Add(limit))
		_, _ = io.Copy(conn, bytes.NewReader(make([]byte, size))) // the agent may hang up
	}
	require.Never(t, func() bool {
		files, err := os.ReadDir(spill)
		return err != nil || len(files) > 0
	}, time.Minute, 10*time.Millisecond)
	drop("down")(c)
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	response, err := http.Get("http://" + port + "/conf")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}
