package authority

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The keys of the Secret. BundleKey is the ConfigMaps' key, too.
const (
	BundleKey = "ca.crt"

	signerCertificate = "signer.crt"
	signerKey         = "signer.key"
	nextCertificate   = "next.crt"
	nextKey           = "next.key"
	formerKey         = "former.crt"
)

// state is what the Secret holds.
type state struct {
	// signer signs the replicas' certificates.
	signer *pair
	// next will sign, once every pod trusts it; nil most of the time.
	next *pair
	// former have signed before, and are trusted until their end.
	former []*x509.Certificate
}

// times are how long an authority lives, and what follows from it.
type times struct{ lifetime time.Duration }

// renewal is the age at which the next authority is made.
func (t times) renewal() time.Duration { return t.lifetime * 2 / 3 }

// overlap is how long all pods take to trust a new authority: kubelets look at a ConfigMap every minute
// or two.
func (t times) overlap() time.Duration { return min(10*time.Minute, t.lifetime/20) }

// leaf is how long a replica's certificate lives. The replica makes the next one after two thirds.
func (t times) leaf() time.Duration { return min(24*time.Hour, t.lifetime/4) }

// step is the state that should follow at a time; s itself if nothing has to change. s may be nil: there is
// none, or it was broken. trusted are authorities that pods may still have to trust then.
func (t times) step(s *state, now time.Time, trusted []*x509.Certificate) (*state, error) {
	var to state
	if s != nil {
		to = *s
	}
	var err error
	if to.signer == nil || !now.Before(to.signer.certificate.NotAfter) {
		if to.signer != nil {
			trusted = append(slices.Clone(trusted), to.signer.certificate)
		}
		to.former = append(slices.Clone(to.former), trusted...)
		if to.signer, err = newPair(now, t.lifetime); err != nil {
			return nil, err
		}
		to.next = nil
	}
	switch age := now.Sub(to.signer.made()); {
	case to.next == nil && age >= t.renewal():
		if to.next, err = newPair(now, t.lifetime); err != nil {
			return nil, err
		}
	case to.next != nil && now.Sub(to.next.made()) >= t.overlap():
		to.former = append(slices.Clone(to.former), to.signer.certificate)
		to.signer, to.next = to.next, nil
	}
	to.former = slices.DeleteFunc(distinct(to.former), func(c *x509.Certificate) bool {
		return !now.Before(c.NotAfter) || c.Equal(to.signer.certificate)
	})
	if n := len(to.former); n > mostTrusted-2 {
		to.former = to.former[n-(mostTrusted-2):]
	}
	if s != nil && to.same(s) {
		return s, nil
	}
	return &to, nil
}

func (s *state) same(other *state) bool {
	return s.signer == other.signer && s.next == other.next && bytes.Equal(encode(s.former...), encode(other.former...))
}

// due is when step will have something to do.
func (t times) due(s *state) time.Time {
	due := s.signer.made().Add(t.renewal())
	if s.next != nil {
		due = s.next.made().Add(t.overlap())
	}
	for _, c := range s.former {
		if c.NotAfter.Before(due) {
			due = c.NotAfter
		}
	}
	return due
}

// trusted are all authorities that pods must trust, the signer first.
func (s *state) trusted() []*x509.Certificate {
	all := []*x509.Certificate{s.signer.certificate}
	if s.next != nil {
		all = append(all, s.next.certificate)
	}
	return append(all, s.former...)
}

// data is the state as a Secret holds it.
func (s *state) data() (map[string][]byte, error) {
	key, err := s.signer.encodeKey()
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{signerCertificate: encode(s.signer.certificate), signerKey: key, BundleKey: encode(s.trusted()...)}
	if s.next != nil {
		if data[nextKey], err = s.next.encodeKey(); err != nil {
			return nil, err
		}
		data[nextCertificate] = encode(s.next.certificate)
	}
	if len(s.former) > 0 {
		data[formerKey] = encode(s.former...)
	}
	return data, nil
}

// parse reads a Secret's data.
func parse(data map[string][]byte) (*state, error) {
	if len(data[signerCertificate]) == 0 {
		return nil, errors.New("it has no " + signerCertificate)
	}
	var s state
	var err error
	if s.signer, err = decodePair(data[signerCertificate], data[signerKey]); err != nil {
		return nil, fmt.Errorf("%s and %s: %v", signerCertificate, signerKey, err)
	}
	if len(data[nextCertificate]) > 0 {
		if s.next, err = decodePair(data[nextCertificate], data[nextKey]); err != nil {
			return nil, fmt.Errorf("%s and %s: %v", nextCertificate, nextKey, err)
		}
	}
	if s.former, err = decode(data[formerKey]); err != nil {
		return nil, fmt.Errorf("%s: %v", formerKey, err)
	}
	return &s, nil
}
