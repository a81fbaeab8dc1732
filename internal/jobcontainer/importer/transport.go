package importer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// transport asks a registry again after what passes: an answer that says so, a connection that fails, and a body that
// is cut off or stands still, of which it asks for the rest. It speaks plain HTTP with this machine alone.
type transport struct {
	base http.RoundTripper
	// plain allows plain HTTP with others.
	plain bool
	// waits are the pauses between attempts without progress.
	waits []time.Duration
	// still is how long a body may bring nothing.
	still time.Duration
	// say is told of each pause.
	say func(format string, args ...any)
}

// pauses are made where a registry is away: half a minute in all.
var pauses = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second}

const (
	longestPause = 15 * time.Second
	mostStill    = time.Minute
)

// RoundTrip makes a request, and its answer's body whole.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.allowed(req); err != nil {
		return nil, err
	}
	response, err := t.persist(req, 0)
	if err != nil || req.Method != http.MethodGet || response.StatusCode != http.StatusOK || response.ContentLength <= 0 {
		return response, err
	}
	response.Body = &body{t: t, req: req, now: response.Body, size: response.ContentLength}
	return response, nil
}

func (t *transport) allowed(req *http.Request) error {
	host := req.URL.Hostname()
	ip := net.ParseIP(host)
	if req.URL.Scheme != "http" || t.plain || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s speaks no HTTPS, and plain HTTP shows passwords to the network; ENROOT_ALLOW_HTTP=y allows it", req.URL.Host)
}

// persist makes a request until there is an answer that will stay, or the pauses are used up. It counts from a number
// of pauses that have been used.
func (t *transport) persist(req *http.Request, used int) (*http.Response, error) {
	for ; ; used++ {
		attempt := req
		if req.Body != nil && used > 0 {
			if req.GetBody == nil {
				return nil, errors.New("the request cannot be repeated")
			}
			again, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			attempt = req.Clone(req.Context())
			attempt.Body = again
		}
		response, err := t.base.RoundTrip(attempt)
		if used >= len(t.waits) || !passes(response, err) {
			return response, err
		}
		pause, why := t.waits[used], fmt.Sprint(err)
		if err == nil {
			why = response.Status
			if after, failed := strconv.Atoi(response.Header.Get("Retry-After")); failed == nil && after > 0 {
				pause = min(time.Duration(after)*time.Second, longestPause)
			}
			_ = response.Body.Close()
		}
		if err := t.wait(req.Context(), pause, req.URL.Host, why); err != nil {
			return nil, err
		}
	}
}

func (t *transport) wait(ctx context.Context, pause time.Duration, host, why string) error {
	t.say("%s: %s; again in %v", host, why, pause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// passes says whether a failure may pass.
func passes(response *http.Response, err error) bool {
	if err == nil {
		switch response.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	if dns, is := errors.AsType[*net.DNSError](err); is {
		return !dns.IsNotFound
	}
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		return false
	}
	if _, is := errors.AsType[*net.OpError](err); is {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// body is an answer's body. What is cut off is asked for again from there on.
type body struct {
	t    *transport
	req  *http.Request
	now  io.ReadCloser
	done int64
	size int64
	used int // pauses since there was progress
}

func (b *body) Read(p []byte) (int, error) {
	for {
		n, err := b.read(p)
		b.done += int64(n)
		if n > 0 {
			b.used = 0
			return n, nil
		}
		if err == nil || b.done >= b.size {
			return n, err
		}
		if b.req.Context().Err() != nil || b.used >= len(b.t.waits) {
			return 0, fmt.Errorf("%s has sent %d of %d bytes: %w", b.req.URL.Host, b.done, b.size, cut(err))
		}
		if err := b.resume(cut(err)); err != nil {
			return 0, err
		}
	}
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read ends a body that stands still by closing it.
func (b *body) read(p []byte) (int, error) {
	now := b.now
	clock := time.AfterFunc(b.t.still, func() { _ = now.Close() })
	defer clock.Stop()
	return now.Read(p)
}

func (b *body) resume(why error) error {
	_ = b.now.Close()
	if err := b.t.wait(b.req.Context(), b.t.waits[b.used], b.req.URL.Host, why.Error()); err != nil {
		return err
	}
	b.used++
	again := b.req.Clone(b.req.Context())
	again.Header.Set("Range", fmt.Sprintf("bytes=%d-", b.done))
	response, err := b.t.persist(again, b.used) //nolint:bodyclose // it becomes b.now, which Close closes
	if err != nil {
		return err
	}
	b.now = response.Body
	if response.StatusCode == http.StatusPartialContent {
		return nil
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s to a request for the rest", b.req.URL.Host, response.Status)
	}
	// it knows no ranges: what is here already is skipped
	if _, err := io.CopyN(io.Discard, b.now, b.done); err != nil {
		return fmt.Errorf("%s has sent less than before: %w", b.req.URL.Host, err)
	}
	return nil
}

func (b *body) Close() error { return b.now.Close() }
