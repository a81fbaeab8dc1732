package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
)

// tokenOf is one that "scontrol token" would print.
func tokenOf(user string, key []byte, until time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	text := part([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + part(fmt.Appendf(nil, `{"exp":%d,"sun":%q}`, until.Unix(), user))
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return text + "." + part(m.Sum(nil))
}

// TestWeb: slurmlet web shows what slurmctld's agent tells it at the socket, where there are no
// commands. The agent judges the tokens.
func TestWeb(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcdef")
	dir, err := os.MkdirTemp("", "web") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.WriteFile(dir+"/jwt.key", key, 0o600))
	socket, withKey := dir+"/s/web.sock", "AuthAltTypes=auth/jwt\nAuthAltParameters=max_token_lifespan=60,jwt_key="+dir+"/jwt.key"
	c := start(t, given{role: "slurmctld", env: []string{"SLURMLET_WEB_SOCKET=" + socket}, files: map[string]string{"conf/slurm.conf": conf("first", withKey)}})
	c.await(phase{name: "it is Ready", want: []condition{isReady, last("first")}})

	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	client := pagefacts.NewClient(socket)
	user, _, err := client.User(t.Context(), tokenOf("alice", key, time.Now().Add(time.Hour)))
	require.NoError(t, err)
	require.Equal(t, "alice", user)
	_, _, err = client.User(t.Context(), tokenOf("alice", []byte("another key of 32 bytes, or more."), time.Now().Add(time.Hour)))
	require.ErrorIs(t, err, pagefacts.ErrToken)
	_, _, err = client.User(t.Context(), tokenOf("bob", key, time.Now().Add(-time.Second)))
	require.ErrorIs(t, err, pagefacts.ErrToken)

	address := freePort(t)
	page := exec.Command(slurmlet, "web", "-listen", address, "-socket", socket, "-tokens")
	page.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, page.Start())
	t.Cleanup(func() {
		require.NoError(t, page.Process.Signal(syscall.SIGTERM))
		require.NoError(t, page.Wait())
	})
	shows := func(token, text string) {
		t.Helper()
		require.Eventually(t, func() bool {
			request, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
			require.NoError(t, err)
			request.Header.Set(pagefacts.TokenHeader, token)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(body), text)
		}, limit, 100*time.Millisecond, text)
	}
	shows("", "Why jobs wait")
	token := tokenOf("alice", key, time.Now().Add(time.Hour))
	shows(token, "started")
	edit("slurm.conf", conf("second", withKey))(c)
	c.await(phase{name: "the second is live", want: []condition{last("second"), kept("second"), notRefused}})
	shows(token, "live</span>")
	edit("slurm.conf", conf("third", withKey, "PrivateData=jobs"))(c)
	c.await(phase{name: "the third is live", want: []condition{last("third"), kept("third"), notRefused}})
	require.Eventually(t, func() bool {
		_, _, err := client.User(t.Context(), token)
		return err != nil
	}, limit, 100*time.Millisecond, "with PrivateData no token is taken")
}
