// Package proof proves over an open network that an HTTP request and its answer come from agents
// that hold the cluster's key (auth/slurm).
//
//   - The client asks for a challenge first (ChallengePath), which slurmctld's agent made and
//     accepts for a few seconds. A request that was held back on its way is late.
//   - The request's signature covers the method, the whole path with its query, the challenge, and
//     a number that is used once. A request that is repeated or altered is refused.
//   - The answer's signature covers the request's signature, the status, the type and the text. An
//     answer to another request, or an altered one, is refused.
//
// Neither side needs the other's clock, and nothing on the network is secret.
package proof

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

// ChallengePath is where slurmctld's agent gives its challenge.
const ChallengePath = "/challenge"

const (
	// scheme is that of the header Authorization. A later form has another number.
	scheme = "Slurmlet1"
	// answerHeader holds the answer's signature.
	answerHeader = "Slurmlet-Signature"

	requestPurpose, answerPurpose = "request 1", "answer 1"

	// idSize is the length of challenges and of requests' numbers, in bytes.
	idSize = 16
	// mostHeader and mostURI bound what is looked at, in bytes.
	mostHeader, mostURI = 1 << 10, 4 << 10
)

// The reasons why a request is refused.
var (
	ErrUnsigned = errors.New("it is not signed")
	ErrForm     = errors.New("it has not the form of a signed request")
	ErrLate     = errors.New("it has not the present challenge")
	ErrForged   = errors.New("it is not signed with the cluster's key")
	ErrRepeated = errors.New("it was answered before")
	ErrTooMany  = errors.New("there are too many")
)

// id is a challenge, or a request's number.
type id [idSize]byte

func newID() (i id) {
	_, _ = rand.Read(i[:]) // it never fails
	return i
}

func (i id) String() string { return hex.EncodeToString(i[:]) }

func parseID(text string) (i id, err error) {
	if len(text) != hex.EncodedLen(idSize) {
		return i, ErrForm
	}
	if _, err := hex.Decode(i[:], []byte(text)); err != nil || i.String() != text {
		return i, ErrForm
	}
	return i, nil
}

// request has the parts of a request that its signature covers.
type request struct {
	method, uri       string
	challenge, number id
}

// text has no two requests in common: neither a method nor a URI has a space in it.
func (r request) text() []byte {
	return fmt.Appendf(nil, "%s %s %s %s", r.method, r.uri, r.challenge, r.number)
}

// signature is whose key has signed, and what it says.
type signature struct {
	key string
	mac []byte
}

// String is the form in which it is sent. The name of a key may have any character, or none.
func (s signature) String() string {
	return hex.EncodeToString(s.mac) + "." + hex.EncodeToString([]byte(s.key))
}

func parseSignature(text string) (signature, error) {
	mac, key, found := strings.Cut(text, ".")
	if !found || len(mac) != hex.EncodedLen(keyring.MACSize) {
		return signature{}, ErrForm
	}
	var s signature
	var err error
	if s.mac, err = hex.DecodeString(mac); err != nil {
		return signature{}, ErrForm
	}
	name, err := hex.DecodeString(key)
	if s.key = string(name); err != nil || s.String() != text {
		return signature{}, ErrForm
	}
	return s, nil
}

// header is the form in which a signed request's proof is sent.
func (r request) header(s signature) string {
	return fmt.Sprintf("%s %s %s %s", scheme, r.challenge, r.number, s)
}

// parseHeader reads what header has written, and nothing else.
func parseHeader(method, uri, text string) (request, signature, error) {
	if text == "" {
		return request{}, signature{}, ErrUnsigned
	}
	if len(text) > mostHeader || len(uri) > mostURI {
		return request{}, signature{}, ErrForm
	}
	words := strings.SplitN(text, " ", 4)
	if len(words) < 4 || words[0] != scheme {
		return request{}, signature{}, ErrForm
	}
	challenge, err := parseID(words[1])
	number, wrong := parseID(words[2])
	s, bad := parseSignature(words[3])
	return request{method, uri, challenge, number}, s, errors.Join(err, wrong, bad)
}

// answer is what slurmctld's agent signs of its answer.
type answer struct {
	to         signature
	status     int
	kind, body string
}

func (a answer) text() []byte {
	text := append(make([]byte, 0, len(a.to.mac)+len(a.kind)+len(a.body)+32), a.to.mac...)
	for _, part := range []string{strconv.Itoa(a.status), a.kind, a.body} {
		text = strconv.AppendInt(text, int64(len(part)), 10)
		text = append(append(text, ' '), part...)
	}
	return text
}
