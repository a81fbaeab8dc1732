// Package slurmtoken judges the JSON Web Tokens that "scontrol token" gives to users
// (https://slurm.schedmd.com/jwt.html): signed with jwt_key, HMAC-SHA256.
package slurmtoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Errors of Verify. None tells more than that, because a stranger hears it.
var (
	ErrForm      = errors.New("it is no JSON Web Token of Slurm's")
	ErrSignature = errors.New("its signature is wrong")
	ErrExpired   = errors.New("it has expired")
)

// leastKey is the shortest key that is believed, in bytes.
const leastKey = 16

// mostUser is more than a name of a user has, in bytes.
const mostUser = 256

type header struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	// Critical are extensions that must be understood (RFC 7515); none is.
	Critical []string `json:"crit"`
}

type claims struct {
	User      string       `json:"sun"`
	Expires   *json.Number `json:"exp"`
	NotBefore *json.Number `json:"nbf"`
}

// Verify says whose a token is, and until when. The signature is compared in constant time, before
// anything but the algorithm is read.
func Verify(token string, key []byte, now time.Time) (user string, until time.Time, err error) {
	signed, signature, found := cutLast(token)
	head, body, dot := strings.Cut(signed, ".")
	if !found || !dot || len(key) < leastKey {
		return "", time.Time{}, ErrForm
	}
	var h header
	if decode(head, &h) != nil || h.Algorithm != "HS256" || h.Critical != nil {
		return "", time.Time{}, ErrForm
	}
	given, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	if err != nil || !hmac.Equal(given, mac.Sum(nil)) {
		return "", time.Time{}, ErrSignature
	}
	var c claims
	if decode(body, &c) != nil || c.User == "" || len(c.User) > mostUser || c.Expires == nil {
		return "", time.Time{}, ErrForm
	}
	until, err = at(c.Expires)
	if err != nil {
		return "", time.Time{}, ErrForm
	}
	if c.NotBefore != nil {
		if from, err := at(c.NotBefore); err != nil || now.Before(from) {
			return "", time.Time{}, ErrForm
		}
	}
	if !now.Before(until) {
		return "", time.Time{}, ErrExpired
	}
	return c.User, until, nil
}

func cutLast(token string) (before, after string, found bool) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return "", "", false
	}
	return token[:i], token[i+1:], true
}

func decode(text string, to any) error {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// at is a time in whole seconds since 1970.
func at(n *json.Number) (time.Time, error) {
	seconds, err := n.Int64()
	return time.Unix(seconds, 0), err
}
