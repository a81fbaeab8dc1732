package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

// Client asks slurmctld's agent.
type Client struct {
	// Keys are the cluster's at present, nil where it has none of its own (munge).
	Keys func() *keyring.Ring
}

// Answer is one of slurmctld's agent.
type Answer struct {
	// Kind is the Content-Type.
	Kind, Text string
}

var (
	// ErrNotOffered: the other end gives no challenge. It is older, or has no key.
	ErrNotOffered = errors.New("slurmctld's agent asks for no proof")
	// ErrRefused: slurmctld's agent does not believe the request, or does not take it.
	ErrRefused = errors.New("slurmctld's agent refuses")
	// ErrNoKey: there is nothing to sign with.
	ErrNoKey = errors.New("there is no key of auth/slurm")
	// ErrNotProved: the answer is not slurmctld's agent's.
	ErrNotProved = errors.New("the answer is not signed with the cluster's key")
)

const (
	// challengeLimit is for an agent that is there.
	challengeLimit = 2 * time.Second
	// mostAnswer is how long an answer may be, in bytes.
	mostAnswer = 1 << 20
)

// lively: slurmctld's pod may go without a word, and its address with it. Half a minute later
// its agent is looked for where the next one is.
var lively = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: lively}).DialContext,
	}
}

// GetUnsigned asks for a path at host:port without a proof.
func GetUnsigned(ctx context.Context, address, path string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return Answer{}, err
	}
	a, _, err := get(r)
	return a, err
}

func get(r *http.Request) (Answer, http.Header, error) {
	t := transport()
	defer t.CloseIdleConnections()
	client := http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		return Answer{}, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	switch {
	case err != nil:
		return Answer{}, nil, err
	case response.StatusCode != http.StatusOK:
		return Answer{}, nil, &Status{response.StatusCode}
	}
	return Answer{response.Header.Get("Content-Type"), string(text)}, response.Header, nil
}

// Status is an answer other than 200.
type Status struct{ Code int }

func (s *Status) Error() string { return fmt.Sprintf("%d %s", s.Code, http.StatusText(s.Code)) }

// Get asks for a path at host:port with a proof, and takes a proved answer alone. A request that is
// refused is made once more: slurmctld's agent may have been a new one since it gave its challenge.
func (c *Client) Get(ctx context.Context, address, path string) (Answer, error) {
	a, err := c.get(ctx, address, path)
	if errors.Is(err, ErrRefused) {
		return c.get(ctx, address, path)
	}
	return a, err
}

func (c *Client) get(ctx context.Context, address, path string) (Answer, error) {
	keys := c.Keys()
	if keys == nil {
		return Answer{}, ErrNoKey
	}
	challenge, err := c.challenge(ctx, address)
	if err != nil {
		return Answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return Answer{}, err
	}
	signed := sign(keys, r, challenge)
	a, header, err := get(r)
	var status *Status
	switch {
	case errors.As(err, &status):
		return Answer{}, fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return Answer{}, err
	case !proved(keys, signed, a, header.Get(answerHeader), time.Now()):
		return Answer{}, ErrNotProved
	}
	return a, nil
}

func (c *Client) challenge(ctx context.Context, address string) (id, error) {
	ctx, cancel := context.WithTimeout(ctx, challengeLimit)
	defer cancel()
	a, err := GetUnsigned(ctx, address, ChallengePath)
	if status, is := errors.AsType[*Status](err); is {
		return id{}, fmt.Errorf("%w: %w", ErrNotOffered, status)
	}
	if err != nil {
		return id{}, err
	}
	challenge, err := parseID(strings.TrimSpace(a.Text))
	if err != nil {
		return id{}, ErrNotOffered
	}
	return challenge, nil
}

// sign signs a request that is about to be sent.
func sign(keys *keyring.Ring, r *http.Request, challenge id) signature {
	q := request{r.Method, r.URL.RequestURI(), challenge, newID()}
	name, mac := keys.Sign(requestPurpose, q.text())
	s := signature{name, mac}
	r.Header.Set("Authorization", q.header(s))
	return s
}

// proved says whether an answer is to the request with this signature.
func proved(keys *keyring.Ring, to signature, a Answer, header string, now time.Time) bool {
	if len(header) > mostHeader {
		return false
	}
	s, err := parseSignature(header)
	return err == nil && keys.Signed(answerPurpose, s.key, answer{to, http.StatusOK, a.Kind, a.Text}.text(), s.mac, now)
}
