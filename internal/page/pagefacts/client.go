package pagefacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// What the agent answers on the socket.
const (
	// FactsPath tells the facts.
	FactsPath = "/facts"
	// UserPath tells whose the token in the header TokenHeader is, in a word.
	UserPath = "/user"
	// TokenHeader is slurmrestd's name for it.
	TokenHeader = "X-SLURM-USER-TOKEN"
)

// ErrToken says that the agent takes no such token.
var ErrToken = errors.New("the token is refused")

// Client asks the agent.
type Client struct {
	http http.Client
}

// NewClient asks at the socket.
func NewClient(socket string) *Client {
	return &Client{http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// Facts asks for the facts.
func (c *Client) Facts(ctx context.Context) (*Facts, error) {
	response, err := c.get(ctx, FactsPath, "")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	return Read(response.Body)
}

// User says whose a token is, and until when it is.
func (c *Client) User(ctx context.Context, token string) (name string, until time.Time, err error) {
	response, err := c.get(ctx, UserPath, token)
	if err != nil {
		return "", time.Time{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", time.Time{}, refusal(response)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("cannot ask slurmctld's agent: %w", err)
	}
	at, name, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	until, err = time.Parse(time.RFC3339, at)
	if err != nil || name == "" {
		return "", time.Time{}, errors.New("cannot read the answer of slurmctld's agent")
	}
	return name, until, nil
}

// mostAnswer is longer than a name or a refusal, in bytes.
const mostAnswer = 1 << 10

// refusal is what the agent answers in the place of facts or a name.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, mostAnswer)) // what came says enough
	why := strings.TrimSpace(string(text))
	if response.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%w: %s", ErrToken, why)
	}
	return fmt.Errorf("cannot ask slurmctld's agent: it answers %s: %s", response.Status, why)
}

func (c *Client) get(ctx context.Context, path, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set(TokenHeader, token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("cannot ask slurmctld's agent: %w", err)
	}
	return response, nil
}
