package keyring

import (
	"crypto/hmac"
	"crypto/sha256"
	"time"
)

// MACSize is the length of a MAC in bytes.
const MACSize = sha256.Size

// Sign returns the MAC of a text (HMAC-SHA256) by the key that signs, and that key's name.
//
// The purpose keeps texts of different kinds apart, and all of them from auth/slurm's own
// credentials: each purpose has a key of its own, derived from the secret. It has a space in it,
// which what auth/slurm signs (a JSON Web Token) never has.
func (r *Ring) Sign(purpose string, text []byte) (name string, mac []byte) {
	k := r.Signer()
	return k.Name, k.mac(purpose, text)
}

// Signed says whether a key of the ring has signed a text, which has not expired.
func (r *Ring) Signed(purpose, name string, text, mac []byte, now time.Time) bool {
	k := r.named(name)
	return len(k.secret) > 0 && !k.expired(now) && hmac.Equal(mac, k.mac(purpose, text))
}

func (k Key) mac(purpose string, text []byte) []byte {
	return sum(sum(k.secret, []byte("slurmlet "+purpose)), text)
}

func sum(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(text) // it never fails
	return h.Sum(nil)
}
