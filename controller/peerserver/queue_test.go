package peerserver

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// playedQueue answers at once, but for questions for pods of job 9, which wait.
type playedQueue struct {
	reports chan wire.GatewayReport
	started chan wire.Started
	release chan struct{}
	waiting atomic.Int64
	away    atomic.Bool
}

func (q *playedQueue) Gateway(_ context.Context, _ Identity, r wire.GatewayReport) (wire.GatewayOrders, error) {
	if q.away.Load() {
		return wire.GatewayOrders{}, ErrAway
	}
	q.reports <- r
	return wire.GatewayOrders{All: true}, nil
}

func (q *playedQueue) Started(_ Identity, s wire.Started) error {
	q.started <- s
	return nil
}

func (q *playedQueue) JobPods(_ context.Context, id Identity, job uint32, node string) ([]string, error) {
	switch {
	case node != id.Pod:
		return nil, ErrNotAllowed
	case job == 7:
		return []string{"team/a"}, nil
	case job == 9:
		q.waiting.Add(1)
		<-q.release
	}
	return nil, nil
}

// whole makes a request by hand, and returns the whole answer.
func (c *controller) whole(text string) string {
	conn, err := c.dial(1)
	require.NoError(c.t, err)
	defer conn.Close()
	require.NoError(c.t, conn.SetDeadline(time.Now().Add(limit)))
	_, _ = io.WriteString(conn, text) // the server may refuse before it has read all
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// TestQueue: who may ask what about pods in Slurm's queue, and how often at once.
func TestQueue(t *testing.T) {
	q := &playedQueue{reports: make(chan wire.GatewayReport, 9), started: make(chan wire.Started, 9), release: make(chan struct{})}
	leads := atomic.Bool{}
	leads.Store(true)
	c := newController(t, ServerOptions{Queue: q, Leads: leads.Load})
	ask := func(method, path, token, body string) string {
		return c.whole(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", method, path, token, len(body), body))
	}
	code := func(answer string) string {
		_, rest, _ := strings.Cut(answer, " ")
		code, _, _ := strings.Cut(rest, " ")
		return code
	}
	const gateway, report = "hpc/login-gateway/login", `{"gateway":"g","whole":true}`
	assert.Contains(t, ask("POST", "/v1/gateway", gateway, report), `{"all":true}`)
	assert.Equal(t, wire.GatewayReport{Gateway: "g", Whole: true}, <-q.reports)
	assert.Equal(t, "403", code(ask("POST", "/v1/gateway", "hpc/login/login", report)), "a login pod that is no gateway")
	assert.Equal(t, "403", code(ask("POST", "/v1/gateway", "hpc/w1/slurmd", report)))
	assert.Equal(t, "400", code(ask("POST", "/v1/gateway", gateway, `{}`)))
	assert.Equal(t, "413", code(c.whole(fmt.Sprintf("POST /v1/gateway HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", gateway, mostReport+1))))
	assert.Equal(t, "204", code(ask("POST", "/v1/jobs/started", "hpc/w1/slurmd", `{"job":7}`)))
	assert.Equal(t, wire.Started{Job: 7}, <-q.started)
	assert.Equal(t, "403", code(ask("POST", "/v1/jobs/started", gateway, `{"job":7}`)))
	assert.Equal(t, "400", code(ask("POST", "/v1/jobs/started", "hpc/w1/slurmd", `{}`)))
	assert.Contains(t, ask("GET", "/v1/jobs/pods?job=7&node=w1", "hpc/w1/slurmd", ""), `{"pods":["team/a"]}`)
	assert.Equal(t, "204", code(ask("GET", "/v1/jobs/pods?node=w1", "hpc/w1/slurmd", "")))
	assert.Equal(t, "403", code(ask("GET", "/v1/jobs/pods?job=7&node=w2", "hpc/w1/slurmd", "")), "another node")
	for _, query := range []string{"job=7", "job=-1&node=w1", "job=x&node=w1", "node=" + strings.Repeat("w", 300)} {
		assert.Equal(t, "400", code(ask("GET", "/v1/jobs/pods?"+query, "hpc/w1/slurmd", "")), query)
	}

	var waiting sync.WaitGroup
	for range mostWaiting {
		waiting.Go(func() { assert.Equal(t, "204", code(ask("GET", "/v1/jobs/pods?job=9&node=w1", "hpc/w1/slurmd", ""))) })
	}
	require.Eventually(t, func() bool { return q.waiting.Load() == mostWaiting }, limit, 1e6)
	assert.Equal(t, "429", code(ask("GET", "/v1/jobs/pods?job=9&node=w1", "hpc/w1/slurmd", "")), "one pod has so many requests that wait")
	assert.Equal(t, "204", code(ask("GET", "/v1/jobs/pods?node=w2", "hpc/w2/slurmd", "")), "another one asks")
	close(q.release)
	waiting.Wait()

	q.away.Store(true)
	assert.Equal(t, "503", code(ask("POST", "/v1/gateway", gateway, report)))
	leads.Store(false)
	assert.Equal(t, "421", code(ask("GET", "/v1/jobs/pods?job=7&node=w1", "hpc/w1/slurmd", "")))
	none := newController(t, ServerOptions{})
	assert.Contains(t, none.request("POST /v1/gateway HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+gateway+"\r\nContent-Length: 0\r\n\r\n"), "404")
}
