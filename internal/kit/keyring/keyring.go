// Package keyring knows auth/slurm's keys: which there are, which of them signs,
// and whether daemons that have one ring understand those that have another. No
// error and no text of it has a key in it.
package keyring

import (
	"bytes"
	"fmt"
	"time"
)

// The files that Slurm looks for, in the directory of slurm.conf. Where there are
// both, slurm.jwks counts (slurm.conf(5), AuthType).
const (
	KeyFile  = "slurm.key"
	JWKSFile = "slurm.jwks"
)

// Ring is what a daemon signs with and accepts.
type Ring struct {
	// Keys are not empty, and have names if there are several.
	Keys []Key
	// Default is the number of the key that signs.
	Default int
}

// Key is one of a ring's.
type Key struct {
	// Name is kid in slurm.jwks; slurm.key has none.
	Name string
	// Expires is when it is not accepted any more; zero: never.
	Expires time.Time
	secret  []byte
}

// IsKeyFile picks the files that Parse reads.
func IsKeyFile(name string) bool { return name == KeyFile || name == JWKSFile }

// Parse reads what Slurm would of a directory's files, by their names.
func Parse(files map[string][]byte) (*Ring, error) {
	if jwks, found := files[JWKSFile]; found {
		return ParseJWKS(jwks)
	}
	key, found := files[KeyFile]
	switch {
	case !found:
		return nil, fmt.Errorf("cannot find the cluster's key: there is neither %s nor %s", KeyFile, JWKSFile)
	case len(key) == 0:
		return nil, fmt.Errorf("cannot use %s: it is empty", KeyFile)
	}
	return &Ring{Keys: []Key{{secret: key}}}, nil
}

// Signer is the key that signs.
func (r *Ring) Signer() Key { return r.Keys[r.Default] }

// accepts says whether what a key has signed is believed. Who has slurm.key looks
// at no name; what has no name is tried with the key that signs.
func (r *Ring) accepts(signer Key, now time.Time) bool {
	known := r.named(signer.Name)
	return bytes.Equal(known.secret, signer.secret) && !known.expired(now)
}

// named is the key that judges what a signer of this name has signed, without a secret if there
// is none.
func (r *Ring) named(name string) Key {
	known := r.Signer()
	if known.Name == "" || name == "" {
		return known
	}
	for _, k := range r.Keys {
		if k.Name == name {
			return k
		}
	}
	return Key{}
}

func (k Key) expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Follows says whether a daemon may go on with this ring while others still have
// the former one: each must accept what the other signs.
func (r *Ring) Follows(former *Ring, now time.Time) error {
	switch {
	case r.Signer().expired(now):
		return fmt.Errorf("the key that signs, %s, has expired", r.Signer())
	case former == nil:
		return nil
	case !r.accepts(former.Signer(), now):
		return fmt.Errorf("others still sign with %s, which would not be accepted any more%s", former.Signer(), wayOut)
	case !former.accepts(r.Signer(), now):
		return fmt.Errorf("it signs with %s, which others do not accept yet%s", r.Signer(), wayOut)
	}
	return nil
}

const wayOut = `: rotate with slurm.jwks in two edits, first both keys with the old one signing, and when all have that, both ` +
	`with the new one signing ("slurmlet jwks" writes it); or stop the whole cluster, since a container takes what is there when it starts`

func (k Key) String() string {
	if k.Name == "" {
		return "the key of " + KeyFile
	}
	return fmt.Sprintf("the key %q", k.Name)
}
