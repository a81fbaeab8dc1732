//go:build e2e

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/papers"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// programsTokens runs the commands of docs/run/tokens.md: a program's token is renewed in a login pod, by its former one,
// and by a signature of the program's own; and what bounds tokens.
func programsTokens(t *testing.T, c *cluster) {
	blocks := tokenCommands(t)
	alice := func(env, command string) (string, error) {
		out, errs, code, err := c.ExecAs(t.Context(), "login", sandbox.How{User: sandbox.User, Dir: "/tmp"}, "sh", "-c", env+"\n"+command)
		if err == nil && code != 0 {
			err = errors.New(errs)
		}
		return strings.TrimSpace(out), err
	}
	do := func(env, command string) string {
		t.Helper()
		out, err := alice(env, command)
		require.NoError(t, err, "%s\n%s", env, command)
		return out
	}
	const there = "export TOKEN=/tmp/token SERVER=http://slurmrestd:6820"
	do(there+" EVERY=1 LIFE=4", "{ "+blocks["token-keeper"]+" } </dev/null >/dev/null 2>&1 & echo $! >/tmp/keeper")
	defer do("", "kill $(cat /tmp/keeper)")
	until(t, "the program has a token", func() (bool, string) {
		_, err := alice(there, "test -s $TOKEN")
		return err == nil, fmt.Sprint(err)
	})
	first := do(there, "cat $TOKEN")
	assert.Equal(t, 4, lifeOf(t, first))
	until(t, "the first token is over", func() (bool, string) {
		said := do("", "curl -s -o /dev/null -w %{http_code} -H 'X-SLURM-USER-TOKEN: "+first+"' http://slurmrestd:6820/slurm/v0.0.42/jobs/")
		return said != "200", said
	})
	assert.Contains(t, do(there, blocks["request"]), `"jobs"`, "the token is another one by now")
	assert.Equal(t, 1800, lifeOf(t, do("", "scontrol token | cut -d= -f2")))
	assert.Equal(t, 900, lifeOf(t, strings.TrimPrefix(do(there, blocks["successor"]), "SLURM_JWT=")))
	_, err := alice("", "scontrol token username=root")
	require.ErrorContains(t, err, "Invalid user id")

	key := filepath.Join(t.TempDir(), "jwt_hs256.key")
	require.NoError(t, os.WriteFile(key, c.JWTKey, 0o600))
	sign := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", blocks["sign"])
	sign.Env = append(os.Environ(), "KEY="+key, "USERNAME="+sandbox.User)
	own, err := sign.Output()
	require.NoError(t, err)
	status, said := submitByREST(t, strings.TrimSpace(string(own)), forward(t, c, "slurmrestd:"+strconv.Itoa(sandbox.RESTPort)))
	assert.Equal(t, http.StatusOK, status, said)

	bounded := c.Cluster
	e := &editing{cluster: c}
	bounds := func(more string) {
		good := c.agent(t, sandbox.Slurmctld).Conf.Good
		const params = "AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key"
		bounded.SlurmConf = strings.Replace(c.SlurmConf, params, params+more, 1)
		e.swap(t, map[string]sandbox.File{"slurm.conf": {Data: []byte(bounded.SlurmConf)}, "cgroup.conf": {Data: []byte(bounded.CgroupConf)}})
		e.waitLive(t, good)
	}
	bounds(",max_token_lifespan=60")
	assert.Equal(t, 60, lifeOf(t, do("", "scontrol token | cut -d= -f2")))
	_, err = alice("", "scontrol token lifespan=61")
	require.Error(t, err)
	bounds(",disable_token_creation")
	_, err = alice("", "scontrol token")
	require.Error(t, err)
	assert.Equal(t, 60, lifeOf(t, c.token(t, "60")), "root makes tokens")
	bounds("")
}

// tokenCommands are the blocks of docs/run/tokens.md that say that TestAccounting runs them, by the names there.
func tokenCommands(t *testing.T) map[string]string {
	t.Helper()
	p, err := papers.Read("..", "docs/run/tokens.md")
	require.NoError(t, err)
	all := map[string]string{}
	for _, b := range p.Blocks {
		if _, name, found := strings.Cut(b.Because, ": "); found && strings.HasPrefix(b.Because, "TestAccounting runs it ") {
			all[name] = b.Text
		}
	}
	require.Len(t, all, 4)
	return all
}

// lifeOf is for how many seconds a token was made.
func lifeOf(t *testing.T, token string) int {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3, token)
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	var times struct{ Exp, Iat int }
	require.NoError(t, json.Unmarshal(claims, &times))
	return times.Exp - times.Iat
}

// foreignToken is as good as one of slurmctld's, but for the key (RFC 7519).
func foreignToken(t *testing.T) string {
	t.Helper()
	part := func(v map[string]any) string {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	now := time.Now().Unix()
	signed := part(map[string]any{"alg": "HS256", "typ": "JWT"}) + "." + part(map[string]any{"iat": now, "exp": now + 600, "sun": sandbox.User})
	mac := hmac.New(sha256.New, []byte("another cluster's key, 32 bytes."))
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
