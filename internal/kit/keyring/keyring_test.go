package keyring

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func secret(name string) []byte { return bytes.Repeat([]byte(name), 32/len(name)) }

// ring reads "a b!@1h": keys by their names, of which the one with ! signs, and one
// with a duration expires then; "file:a" is a slurm.key.
func ring(t *testing.T, text string) *Ring {
	t.Helper()
	if name, plain := strings.CutPrefix(text, "file:"); plain {
		r, err := Parse(map[string][]byte{KeyFile: secret(name)})
		require.NoError(t, err)
		return r
	}
	r := &Ring{}
	for i, word := range strings.Fields(text) {
		word, expiry, expires := strings.Cut(word, "@")
		name, signs := strings.CutSuffix(word, "!")
		if signs {
			r.Default = i
		}
		at := time.Time{}
		if expires {
			d, err := time.ParseDuration(expiry)
			require.NoError(t, err)
			at = now.Add(d)
		}
		key, err := NewKey(strings.TrimSuffix(name, "'"), secret(name), at)
		require.NoError(t, err)
		r.Keys = append(r.Keys, key)
	}
	return r
}

// TestFollows: who may follow whom while others still have the former ring.
// (a' is another key of a's name.)
func TestFollows(t *testing.T) {
	const accepted, expects = "which others do not accept yet", "would not be accepted any more"
	for _, c := range []struct{ former, next, refusal string }{
		{"file:a", "file:a", ""},
		{"file:a", "file:b", expects},
		{"file:a", "a! b", ""},
		{"file:a", "a b!", expects},
		{"file:a", "b!", expects},
		{"a! b", "a b!", ""},
		{"a! b", "a@1h b!", ""},
		{"a! b", "b!", expects},
		{"a! b", "a@-1s b!", expects},
		{"a b!", "b!", ""},
		{"a b!", "b! c", ""},
		{"a b!", "b c!", accepted},
		{"a b!", "file:b", ""},
		{"a b!", "file:a", expects},
		{"a!", "a'!", expects},
		{"a! b", "a b'!", accepted},
		{"a! b@-1s", "a b!", accepted},
		{"a!", "a!@-1s", "has expired"},
		{"", "a!", ""},
		{"", "a!@-1s", "has expired"},
	} {
		t.Run(c.former+" to "+c.next, func(t *testing.T) {
			var former *Ring
			if c.former != "" {
				former = ring(t, c.former)
			}
			err := ring(t, c.next).Follows(former, now)
			if c.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.refusal)
			require.NotContains(t, err.Error(), string(secret("b")))
		})
	}
}

func TestParse(t *testing.T) {
	r, err := Parse(map[string][]byte{KeyFile: secret("a"), JWKSFile: []byte(valid(""))})
	require.NoError(t, err)
	require.Equal(t, "k1", r.Signer().Name, "slurm.jwks comes before slurm.key, and the first key signs")
	_, err = Parse(nil)
	require.ErrorContains(t, err, "neither slurm.key nor slurm.jwks")
	_, err = Parse(map[string][]byte{KeyFile: nil})
	require.ErrorContains(t, err, "slurm.key: it is empty")
}

// valid is a slurm.jwks with one key, and what follows it.
func valid(more string) string {
	return `{"keys":[{"alg":"HS256","kty":"oct","kid":"k1","k":"` + base64.StdEncoding.EncodeToString(secret("a")) + `"}` + more + `]}`
}

func TestParseJWKS(t *testing.T) {
	second := func(fields string) string { return valid(`,{"alg":"hs256","kty":"OCT",` + fields + `}`) }
	const k = `"k":"c2VjcmV0c2VjcmV0c2VjcmV0"`
	for _, c := range []struct{ name, text, says string }{
		{"what Slurm takes", second(`"kid":"k2","use":"Default","exp":2000000000,` + k), ""},
		{"no JSON", `{"keys":[secret]}`, "want JSON; it is none at byte 10"},
		{"no list", `{"keys":"secret"}`, `want []keyring.jwk for "keys"`},
		{"no keys", `{"keys":[]}`, "with one key at least"},
		{"another JSON", `{}`, "with one key at least"},
		{"no name", second(k), `keys[1]: want a name as "kid"`},
		{"a name twice", second(`"kid":"k1",` + k), `keys[1]: there is another key with the kid "k1"`},
		{"a short key", second(`"kid":"k2","k":"c2VjcmV0"`), `want at least 16 bytes as base64 in "k"`},
		{"no base64", second(`"kid":"k2","k":"!secret!secret!secret!secret!secret"`), `want at least 16 bytes as base64 in "k"`},
		{"a key of RSA", valid(`,{"alg":"RS256","kty":"RSA","kid":"x"}`), `want "kty": "oct"`},
		{"another algorithm", valid(`,{"alg":"HS512","kty":"oct","kid":"x"}`), `want "alg": "HS256"`},
		{"two that sign", second(`"kid":"k2","use":"default",` + k + `},{"alg":"HS256","kty":"oct","kid":"k3","use":"default",` + k), "in one key, not in 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseJWKS([]byte(c.text))
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				require.NotContains(t, strings.ReplaceAll(err.Error(), "keys", ""), "secret")
				return
			}
			require.NoError(t, err)
			require.Equal(t, Key{Name: "k2", Expires: time.Unix(2000000000, 0), secret: []byte("secretsecretsecret")}, r.Signer())
		})
	}
}

// FuzzParseJWKS: what is read is written and read again as the same.
func FuzzParseJWKS(f *testing.F) {
	f.Add([]byte(valid("")))
	f.Add([]byte(valid(`,{"alg":"HS256","kty":"oct","kid":"b","use":"default","exp":9,"k":"c2VjcmV0c2VjcmV0c2VjcmV0"}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseJWKS(text)
		if err != nil {
			return
		}
		written, err := r.MarshalJWKS()
		require.NoError(t, err)
		again, err := ParseJWKS(written)
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
