package pagefacts

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// DefaultSocket is where slurmlet-web looks for slurmctld's agent.
const DefaultSocket = "/run/slurmlet-web/web.sock"

// FactsPath is what the agent answers on the socket.
const FactsPath = "/facts"

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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+FactsPath, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("cannot ask slurmctld's agent: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, mostRefusal)) // what came says enough
		return nil, fmt.Errorf("cannot ask slurmctld's agent: it answers %s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return Read(response.Body)
}

// mostRefusal is longer than what the agent answers in the place of facts, in bytes.
const mostRefusal = 1 << 10
