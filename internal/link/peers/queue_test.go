package peers

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// asks is a Client of a server that answers as a test says.
func asks(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("abc"), 0o400))
	c, err := NewClient(ClientOptions{
		Address: server.Listener.Addr().String(), CA: filepath.Join(dir, "ca.crt"), Token: filepath.Join(dir, "token"),
	})
	require.NoError(t, err)
	return c
}

// TestJobPods: only 204 says that there are no pods.
func TestJobPods(t *testing.T) {
	for name, c := range map[string]struct {
		code  int
		body  string
		pods  []string
		none  bool
		fault string
	}{
		"none":              {http.StatusNoContent, "", nil, true, ""},
		"some":              {http.StatusOK, `{"pods":["hpc/a","hpc/b"]}`, []string{"hpc/a", "hpc/b"}, false, ""},
		"nothing said":      {http.StatusOK, "", nil, false, ""},
		"an empty list":     {http.StatusOK, `{"pods":[]}`, []string{}, false, ""},
		"no JSON":           {http.StatusOK, "<html>", nil, false, "cannot read"},
		"accepted":          {http.StatusAccepted, "", nil, false, "want 200 or 204"},
		"nobody knows":      {http.StatusServiceUnavailable, "", nil, false, "503"},
		"another replica":   {http.StatusMisdirectedRequest, "", nil, false, "421"},
		"not there":         {http.StatusNotFound, "", nil, false, "404"},
		"longer than usual": {http.StatusOK, `{"pods":["` + strings.Repeat("a", 20<<10) + `"]}`, []string{strings.Repeat("a", 20<<10)}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var asked string
			pods, none, err := asks(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.String() + " " + r.Header.Get("Authorization")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			}).JobPods(t.Context(), 7, "n1")
			require.Equal(t, "/v1/jobs/pods?job=7&node=n1 Bearer abc", asked)
			require.Equal(t, c.pods, pods)
			require.Equal(t, c.none, none)
			if c.fault == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.fault)
		})
	}
}

// TestReportJobs: a report goes up, and orders come down.
func TestReportJobs(t *testing.T) {
	c := asks(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/jobs/started" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if r.URL.Path != "/v1/gateway" || string(text) != `{"gateway":"g","whole":true}` {
			http.Error(w, string(text), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"orders":[{"id":"1","kind":"look","user":"alice","job":7}]}`)
	})
	orders, err := c.ReportJobs(t.Context(), &wire.GatewayReport{Gateway: "g", Whole: true})
	require.NoError(t, err)
	require.Equal(t, []wire.Order{{ID: "1", Kind: wire.Look, User: "alice", Job: 7}}, orders.Orders)
	_, err = c.ReportJobs(t.Context(), &wire.GatewayReport{})
	require.ErrorContains(t, err, "400")
	require.NoError(t, c.ReportStarted(t.Context(), wire.Started{Job: 7}))
}

// TestPauseAfter: another replica is asked soon, and no controller is asked without a pause.
func TestPauseAfter(t *testing.T) {
	for range 100 {
		require.Less(t, PauseAfter(&refusal{code: http.StatusMisdirectedRequest}, 0), 200*time.Millisecond)
		require.LessOrEqual(t, PauseAfter(&refusal{code: http.StatusServiceUnavailable}, 50), 3*time.Second)
		require.GreaterOrEqual(t, PauseAfter(&refusal{code: http.StatusServiceUnavailable, wait: time.Minute}, 0), time.Minute)
		require.Greater(t, PauseAfter(io.EOF, 20), 7*time.Second)
	}
}
