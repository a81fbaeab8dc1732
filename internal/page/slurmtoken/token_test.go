package slurmtoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	key = []byte("0123456789abcdef0123456789abcdef")
	now = time.Unix(1_800_000_000, 0)
)

// token signs a header and claims as Slurm does.
func token(head, body string, key []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

const (
	head = `{"alg":"HS256","typ":"JWT"}`
	body = `{"exp":1800000060,"iat":1799999990,"sun":"alice"}`
)

func TestVerify(t *testing.T) {
	good := token(head, body, key)
	parts := strings.Split(good, ".")
	for _, c := range []struct {
		name, token string
		want        error
	}{
		{"a good one", good, nil},
		{"nothing", "", ErrForm},
		{"two parts", "a.b", ErrForm},
		{"four parts", good + ".x", ErrSignature},
		{"another key's", token(head, body, []byte("another key, of 32 bytes, or so.")), ErrSignature},
		{"no signature", parts[0] + "." + parts[1] + ".", ErrSignature},
		{"another body", parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(body, "alice", "root", 1))) + "." + parts[2], ErrSignature},
		{"no algorithm", token(`{"alg":"none"}`, body, key), ErrForm},
		{"a public key's algorithm", token(`{"alg":"RS256"}`, body, key), ErrForm},
		{"an extension", token(`{"alg":"HS256","crit":["b64"],"b64":false}`, body, key), ErrForm},
		{"expired", token(head, `{"exp":1800000000,"sun":"alice"}`, key), ErrExpired},
		{"for ever", token(head, `{"sun":"alice"}`, key), ErrForm},
		{"a time that is none", token(head, `{"exp":1e400,"sun":"alice"}`, key), ErrForm},
		{"later", token(head, `{"exp":1800000060,"nbf":1800000001,"sun":"alice"}`, key), ErrForm},
		{"nobody's", token(head, `{"exp":1800000060}`, key), ErrForm},
		{"a list's", token(head, `{"exp":1800000060,"sun":["root"]}`, key), ErrForm},
		{"padded", good + "=", ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			user, until, err := Verify(c.token, key, now)
			require.Equal(t, c.want, err)
			if err == nil {
				require.Equal(t, "alice", user)
				require.Equal(t, now.Add(time.Minute), until)
			} else {
				require.Empty(t, user)
			}
		})
	}
	_, _, err := Verify(token(head, body, nil), nil, now)
	require.Equal(t, ErrForm, err, "an empty key signs nothing")
}

// FuzzVerify: nothing but what the key has signed is believed.
func FuzzVerify(f *testing.F) {
	good := token(head, body, key)
	f.Add(good)
	f.Add(token(`{"alg":"none"}`, body, key))
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		user, _, err := Verify(text, key, now)
		require.True(t, err != nil && user == "" || text == good, "%q is believed", text)
	})
}
