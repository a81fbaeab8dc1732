package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// TestFacts: slurmctld's agent tells slurmlet-web at the socket what became of an edit. It answers nothing else there.
func TestFacts(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "web") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := dir + "/s/web.sock"
	c := start(t, given{role: "slurmctld", env: []string{"SLURMLET_WEB_SOCKET=" + socket}, files: map[string]string{"conf/slurm.conf": conf("first")}})
	c.await(phase{name: "it is Ready", want: []condition{isReady, last("first")}})

	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	client := pagefacts.NewClient(socket)
	facts, err := client.Facts(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Ready", facts.Agent.State)
	edit("slurm.conf", conf("second"))(c)
	c.await(phase{name: "the second is live", want: []condition{last("second"), kept("second"), notRefused}})
	facts, err = client.Facts(t.Context())
	require.NoError(t, err)
	require.Equal(t, reconfig.OutcomeLive, facts.Conf.History[len(facts.Conf.History)-1].Outcome)
	for _, asks := range []struct {
		method, path string
		status       int
	}{{http.MethodGet, "/", 404}, {http.MethodGet, "/user", 404}, {http.MethodPost, pagefacts.FactsPath, 405}} {
		require.Equal(t, asks.status, statusOf(t, socket, asks.method, asks.path), asks.path)
	}
}

func statusOf(t *testing.T, socket, method, path string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(t.Context(), method, "http://agent"+path, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}
