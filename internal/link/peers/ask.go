package peers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

const (
	// timeToConnect bounds the way to the stream's first byte.
	timeToConnect = 10 * time.Second
	// timeToResolve bounds the question for the controller's address, if an earlier one is known.
	timeToResolve = 3 * time.Second
	// mostWait bounds what the controller may ask for (Retry-After).
	mostWait = time.Minute
	// mostToken bounds the token's file, and mostCA the certificates'.
	mostToken = 8 << 10
	mostCA    = 1 << 20
	// mostHead bounds the header of the controller's answer.
	mostHead = 8 << 10
	// mostSentence bounds what is read of a refusal.
	mostSentence = 512
)

// refusal is an answer that is no success.
type refusal struct {
	code int
	wait time.Duration
	// why is the controller's sentence.
	why string
}

func (r *refusal) Error() string {
	text := "the controller answers " + strconv.Itoa(r.code) + " " + http.StatusText(r.code)
	switch {
	case r.code == http.StatusUnauthorized:
		text += ": it does not accept the pod's token"
	case r.why != "":
		text += ": " + r.why
	}
	return text
}

// lasting: the same would be refused again.
func (r *refusal) lasting() bool {
	switch r.code {
	case http.StatusBadRequest, http.StatusLengthRequired, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return true
	}
	return false
}

type request struct {
	method, path, token string
	body                []byte
	match               string // the ETag that must be the present one
	accept              string
}

type answer struct {
	header http.Header
	// rest is what came with the header, and length what comes in all; -1: nobody knows.
	rest   io.Reader
	length int64
}

// ask opens a connection and makes one request. The agent has no http.Transport, which would keep
// goroutines and buffers for a connection that only reads.
func (c *Client) ask(ctx context.Context, r request) (net.Conn, *answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeToConnect)
	defer cancel()
	conn, err := c.connect(ctx, &r)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })
	a, err := exchange(ctx, conn, c.host, r)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.NetConn().Close()
		return nil, nil, err
	}
	c.mu.Lock()
	c.last = conn.RemoteAddr().String()
	c.mu.Unlock()
	return conn, a, nil
}

// connect opens a connection for a request, and gives the request the pod's token.
func (c *Client) connect(ctx context.Context, r *request) (*tls.Conn, error) {
	var err error
	if r.token, err = readToken(c.Token, c.Alone); err != nil {
		return nil, err
	}
	roots, err := readCA(c.CA)
	if err != nil {
		return nil, err
	}
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the controller: %w", err)
	}
	return tls.Client(raw, &tls.Config{
		RootCAs: roots, ServerName: c.host, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
	}), nil
}

// dial goes to the controller's name, and where DNS does not answer to where the controller was.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last == "" {
		return c.Dial(ctx, "tcp", c.Address)
	}
	first, cancel := context.WithTimeout(ctx, timeToResolve)
	defer cancel()
	conn, err := c.Dial(first, "tcp", c.Address)
	if err == nil {
		return conn, nil
	}
	if conn, again := c.Dial(ctx, "tcp", last); again == nil {
		return conn, nil
	}
	return nil, err
}

func exchange(ctx context.Context, conn *tls.Conn, host string, q request) (*answer, error) {
	// What follows the header stays in head.
	head := bufio.NewReaderSize(io.LimitReader(conn, mostHead), mostHead)
	r, err := send(ctx, conn, host, q, head)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()                  // reads nothing: the connection ends with the answer
	rest, _ := head.Peek(head.Buffered()) // it is there
	return &answer{header: r.Header, rest: bytes.NewReader(rest), length: r.ContentLength}, nil
}

// send makes a request, and reads the header of an answer that is a success.
func send(ctx context.Context, conn *tls.Conn, host string, q request, from *bufio.Reader) (*http.Response, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("cannot trust the controller: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n", q.method,
		q.path, hostHeader(host), q.token)
	if q.body != nil {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(q.body))
	}
	if q.match != "" {
		fmt.Fprintf(&b, "If-Match: %s\r\n", q.match)
	}
	if q.accept != "" {
		fmt.Fprintf(&b, "Accept: %s\r\n", q.accept)
	}
	b.WriteString("\r\n")
	b.Write(q.body)
	_, unsent := conn.Write(b.Bytes()) // a report that is too long is refused before all of it is sent
	r, err := http.ReadResponse(from, nil)
	if err != nil && unsent != nil {
		return nil, fmt.Errorf("cannot ask the controller: %w", unsent)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the controller's answer: %w", err)
	}
	if r.StatusCode/100 != 2 {
		defer r.Body.Close() // reads nothing: the connection ends with the answer
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return nil, &refusal{code: r.StatusCode, wait: min(time.Duration(max(seconds, 0))*time.Second, mostWait), why: sentence(r)}
	}
	return r, nil
}

// sentence is what the controller says besides a status; empty if that is no more than the status' own words.
func sentence(r *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(r.Body, mostSentence)) // a part will do
	said := strings.TrimSpace(strings.ToValidUTF8(string(text), ""))
	if said == http.StatusText(r.StatusCode) || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return said
}

func hostHeader(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return "[" + host + "]"
	}
	return host
}

// readToken refuses a token that a job's process could read.
func readToken(path string, alone bool) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the pod's token: %w", err)
	}
	defer f.Close()
	if err := private(f, alone); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, mostToken+1))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read the pod's token: %w", err)
	case token == "" || len(text) > mostToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("cannot use the pod's token: %s holds none", path)
	}
	return token, nil
}

// private: only the agent's user reads the file, or its group where users have no process.
func private(f *os.File, alone bool) error {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return fmt.Errorf("cannot look at the pod's token: %w", err)
	}
	others, own := uint32(0o077), int(s.Uid) == os.Geteuid()
	if alone {
		others, own = 0o007, own || s.Uid == 0
	}
	if s.Mode&others != 0 || !own {
		return fmt.Errorf(
			"cannot use the pod's token: others than user %d can read %s, which has mode %04o and owner %d; want "+
				"0400 (defaultMode)", os.Geteuid(), f.Name(), s.Mode&0o7777, s.Uid)
	}
	return nil
}

func readCA(path string) (*x509.CertPool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the controller's CA: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostCA))
	if err != nil {
		return nil, fmt.Errorf("cannot read the controller's CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cannot use the controller's CA: %s holds no certificate", path)
	}
	return roots, nil
}
