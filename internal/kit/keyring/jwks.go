package keyring

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// jwks is slurm.jwks (RFC 7517, and what Slurm asks of each key beyond it).
type jwks struct {
	Set []jwk `json:"keys"`
}

type jwk struct {
	Algorithm string `json:"alg"`
	Type      string `json:"kty"`
	Name      string `json:"kid"`
	Secret    string `json:"k"`
	Use       string `json:"use,omitempty"`
	Expires   int64  `json:"exp,omitempty"`
}

// leastSecret is what Slurm wants of a key in slurm.jwks, in bytes.
const leastSecret = 16

// ParseJWKS reads a slurm.jwks. What it refuses ends a daemon of Slurm's.
func ParseJWKS(text []byte) (*Ring, error) {
	var set jwks
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", JWKSFile, place(err))
	}
	if len(set.Set) == 0 {
		return nil, fmt.Errorf(`cannot use %s: want {"keys": […]} with one key at least`, JWKSFile)
	}
	r, defaults := &Ring{}, 0
	var faults []error
	for i, one := range set.Set {
		key, err := one.key()
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("cannot use %s: keys[%d]: %w", JWKSFile, i, err))
		case slices.ContainsFunc(r.Keys, func(k Key) bool { return k.Name == key.Name }):
			faults = append(faults, fmt.Errorf("cannot use %s: keys[%d]: there is another key with the kid %q", JWKSFile, i, key.Name))
		}
		if strings.EqualFold(one.Use, "default") {
			r.Default = i
			defaults++
		}
		r.Keys = append(r.Keys, key)
	}
	if defaults > 1 {
		faults = append(faults, fmt.Errorf(`cannot use %s: want "use": "default" in one key, not in %d`, JWKSFile, defaults))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r, nil
}

// place is where the text is no JSON, without a word of it.
func place(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("want JSON; it is none at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("want %s for %q", kind.Type, kind.Field)
	}
	return errors.New("want JSON")
}

func (k jwk) key() (Key, error) {
	secret, err := decode(k.Secret)
	switch {
	case k.Name == "":
		return Key{}, errors.New(`want a name as "kid"`)
	case !strings.EqualFold(k.Type, "oct"):
		return Key{}, errors.New(`want "kty": "oct"`)
	case !strings.EqualFold(k.Algorithm, "HS256"):
		return Key{}, errors.New(`want "alg": "HS256"`)
	case err != nil || len(secret) < leastSecret:
		return Key{}, fmt.Errorf(`want at least %d bytes as base64 in "k"`, leastSecret)
	case k.Expires < 0:
		return Key{}, errors.New(`want seconds since 1970 in "exp"`)
	}
	key := Key{Name: k.Name, secret: secret}
	if k.Expires > 0 {
		key.Expires = time.Unix(k.Expires, 0)
	}
	return key, nil
}

// decode takes both alphabets of base64, padded or not.
func decode(text string) ([]byte, error) {
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	return base64.RawStdEncoding.DecodeString(plain)
}

// NewKey is a key of a slurm.jwks; the zero time: it never expires.
func NewKey(name string, secret []byte, expires time.Time) (Key, error) {
	one := jwk{Algorithm: "HS256", Type: "oct", Name: name, Secret: base64.RawURLEncoding.EncodeToString(secret)}
	if !expires.IsZero() {
		one.Expires = expires.Unix()
	}
	return one.key()
}

// MarshalJWKS is the ring as slurm.jwks.
func (r *Ring) MarshalJWKS() ([]byte, error) {
	var set jwks
	for i, k := range r.Keys {
		one := jwk{Algorithm: "HS256", Type: "oct", Name: k.Name, Secret: base64.RawURLEncoding.EncodeToString(k.secret)}
		if i == r.Default {
			one.Use = "default"
		}
		if !k.Expires.IsZero() {
			one.Expires = k.Expires.Unix()
		}
		set.Set = append(set.Set, one)
	}
	text, err := json.MarshalIndent(set, "", "  ")
	if err == nil {
		_, err = ParseJWKS(text)
	}
	return append(text, '\n'), err
}
