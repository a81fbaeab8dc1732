package proof

import (
	"fmt"
	"net/http"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

// Verifier is slurmctld's agent's side. One goroutine uses it.
type Verifier struct {
	// Keys are the cluster's at present, nil where it has none of its own (munge).
	Keys func() *keyring.Ring

	now             func() time.Time // time.Now but in tests
	present, former period
}

// period is a time for which a challenge is given.
type period struct {
	challenge id
	since     time.Time
	// numbers are those of the requests that were accepted.
	numbers map[id]bool
}

const (
	// periodLength is how long a challenge is given; it is accepted for as long again.
	periodLength = 5 * time.Second
	// mostAccepted bounds the requests of a period: each of 10,000 nodes has six.
	mostAccepted = 1 << 16
)

func (v *Verifier) clock() time.Time {
	if v.now != nil {
		return v.now()
	}
	return time.Now()
}

// turn begins a new period when the present one is over.
func (v *Verifier) turn(now time.Time) {
	age := now.Sub(v.present.since)
	if v.present.numbers != nil && age >= 0 && age < periodLength {
		return
	}
	v.former = v.present
	if age >= 2*periodLength || age < 0 {
		v.former = period{}
	}
	v.present = period{newID(), now, map[id]bool{}}
}

// ServeHTTP gives the challenge. It costs what any other small answer does, and keeps nothing.
func (v *Verifier) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if v.Keys() == nil {
		http.Error(w, "this cluster has no key of auth/slurm", http.StatusNotFound)
		return
	}
	v.turn(v.clock())
	fmt.Fprint(w, v.present.challenge)
}

// Verify says whose answer may be signed, or why the request is refused. What costs nothing is
// looked at first; nothing is kept of a request that is refused.
func (v *Verifier) Verify(r *http.Request) (*Signer, error) {
	keys := v.Keys()
	if keys == nil {
		return nil, ErrUnsigned
	}
	q, s, err := parseHeader(r.Method, r.RequestURI, r.Header.Get("Authorization"))
	if err != nil {
		return nil, err
	}
	now := v.clock()
	v.turn(now)
	p := v.period(q.challenge)
	switch {
	case p == nil:
		return nil, ErrLate
	case p.numbers[q.number]:
		return nil, ErrRepeated
	case len(p.numbers) >= mostAccepted:
		return nil, ErrTooMany
	case !keys.Signed(requestPurpose, s.key, q.text(), s.mac, now):
		return nil, ErrForged
	}
	p.numbers[q.number] = true
	return &Signer{keys, s}, nil
}

// period is that of a challenge which is accepted, nil for none.
func (v *Verifier) period(challenge id) *period {
	for _, p := range []*period{&v.present, &v.former} {
		if p.numbers != nil && p.challenge == challenge {
			return p
		}
	}
	return nil
}

// Signer signs the answer to one request.
type Signer struct {
	keys *keyring.Ring
	to   signature
}

// Write writes a signed answer.
func (s *Signer) Write(w http.ResponseWriter, kind, body string) {
	name, mac := s.keys.Sign(answerPurpose, answer{s.to, http.StatusOK, kind, body}.text())
	w.Header().Set("Content-Type", kind)
	w.Header().Set(answerHeader, signature{name, mac}.String())
	fmt.Fprint(w, body)
}
