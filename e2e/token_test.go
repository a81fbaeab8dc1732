//go:build e2e

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

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
