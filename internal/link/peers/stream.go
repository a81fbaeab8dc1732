package peers

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// stream is an answer that goes on.
type stream struct {
	net.Conn
	*answer
	release func() bool
}

func (s *stream) close() {
	s.release()
	_ = s.Close()
}

// open begins a stream. old takes one of a controller that hears nothing of Kubernetes.
func (c *Client) open(ctx context.Context, old bool) (*stream, error) {
	path := "/v1/stream"
	if old {
		path += "?stale=yes"
	}
	conn, answer, err := c.ask(ctx, request{method: http.MethodGet, path: path, accept: wire.Compressed})
	if err != nil {
		return nil, err
	}
	return &stream{conn, answer, context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
}

// follow reads one stream to its end, and where its controller hears nothing of Kubernetes the one of another
// replica after it. stood says that one had begun.
func (c *Client) follow(ctx context.Context, tries int) (stood bool, err error) {
	old := tries >= patience && c.Status().Updated.IsZero() // an old table is better than none
	s, err := c.open(ctx, old)
	for err == nil {
		var next *stream
		var began bool
		next, began, err = c.read(ctx, s)
		stood = stood || began
		s.close()
		if next == nil {
			break
		}
		s = next
	}
	return stood, err
}

// read takes what comes, to its end, or until another replica has a younger table.
func (c *Client) read(ctx context.Context, s *stream) (next *stream, stood bool, err error) {
	lines := bufio.NewReaderSize(io.MultiReader(s.rest, silent{s.Conn, c.Silence}), 4<<10)
	search := search{}
	for {
		u, err := readUpdate(lines)
		if err != nil {
			return nil, stood, err
		}
		switch {
		case stood:
		case u.Snapshot:
			stood = true
		case !u.IsHeartbeat():
			return nil, false, errors.New("cannot read the controller's stream: it does not begin with the whole table")
		default:
			continue // many wait for the table
		}
		change := c.take(u)
		if c.Changed != nil && change.HasNews() {
			c.Changed(change)
		}
		if err := c.renew(u); err != nil {
			return nil, stood, err
		}
		if !u.Stale {
			continue
		}
		if c.Away != nil {
			c.Away(c.Status().Stale)
		}
		if next := search.due(ctx, c); next != nil {
			return next, stood, nil
		}
	}
}

// renew ends a stream whose controller hears of Kubernetes again, if the whole table has more that is new.
func (c *Client) renew(u wire.Update) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgot && u.IsHeartbeat() && !u.Stale {
		return errors.New("the controller hears of Kubernetes again, and the whole table is needed")
	}
	return nil
}

// search looks for a replica that hears of Kubernetes, less and less often. Those that do not refuse streams.
type search struct {
	next  time.Time
	tries int
}

func (s *search) due(ctx context.Context, c *Client) *stream {
	if time.Now().Before(s.next) {
		return nil
	}
	next, err := c.open(ctx, false)
	if err != nil {
		pause := backoff.Grow(firstSearch, s.tries, lastSearch)
		s.next = time.Now().Add(pause/2 + rand.N(pause))
		s.tries++
		return nil
	}
	return next
}

// readUpdate reads a line, and what follows it compressed.
func readUpdate(lines *bufio.Reader) (u wire.Update, err error) {
	line, err := readLine(lines)
	if err != nil {
		return u, fmt.Errorf("the controller's stream has ended: %w", err)
	}
	if err = json.Unmarshal(line, &u); err == nil && u.Gzip > 0 {
		u, err = readCompressed(lines, u.Gzip)
	}
	if err != nil {
		return u, fmt.Errorf("cannot read the controller's stream: %w", err)
	}
	return u, nil
}

// readCompressed bounds both what comes and what it becomes.
func readCompressed(from io.Reader, size int) (u wire.Update, err error) {
	if size > mostLine {
		return u, errTooLong
	}
	text, err := gzip.NewReader(bufio.NewReader(io.LimitReader(from, int64(size))))
	if err != nil {
		return u, err
	}
	line, err := io.ReadAll(io.LimitReader(text, mostLine+1))
	switch {
	case err != nil:
		return u, err
	case len(line) > mostLine:
		return u, errTooLong
	}
	return u, json.Unmarshal(line, &u)
}

var errTooLong = errors.New("a line is too long")

// readLine bounds a line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return part, nil
		case err == nil:
			return append(long, part...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(long) > mostLine:
			return nil, errTooLong
		}
		long = append(long, part...)
	}
}

// silent reads what comes in time.
type silent struct {
	net.Conn
	most time.Duration
}

func (s silent) Read(b []byte) (int, error) {
	if err := s.SetReadDeadline(time.Now().Add(s.most)); err != nil {
		return 0, err
	}
	n, err := s.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing came for %s", s.most)
	}
	return n, err
}
