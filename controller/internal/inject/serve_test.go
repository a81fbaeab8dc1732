package inject

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served is a webhook that listens on loopback, and a client that trusts it.
type served struct {
	address string
	client  *http.Client
	config  *tls.Config
}

func serve(t *testing.T) served {
	t.Helper()
	_, s := serveHandler(t, Handler(settings, slog.New(slog.DiscardHandler)))
	return s
}

// certificate is of the kind that the controller has, with what a client needs to trust it.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(signed)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: key}}}, &tls.Config{RootCAs: trusted}
}

func (s served) ask(t *testing.T, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+Path, bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", text)
	require.Contains(t, string(text), `"allowed":true`)
}

// strangers are what holds a connection and gives nothing for it: silence, half a handshake, half a
// head, a body that does not come, one that does not end, and an answer that nobody reads.
var strangers = []func(conn net.Conn, config *tls.Config){
	func(net.Conn, *tls.Config) {},
	func(conn net.Conn, _ *tls.Config) { _, _ = conn.Write([]byte{22, 3, 1, 2, 0}) },
	over("POST /inject HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 4<<10)),
	over("POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n" + strings.Repeat(" ", 400_000)),
	over("POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"),
	over("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
}

func over(text string) func(net.Conn, *tls.Config) {
	return func(conn net.Conn, config *tls.Config) {
		secure := config.Clone()
		secure.ServerName = "127.0.0.1"
		_, _ = io.WriteString(tls.Client(conn, secure), text) // it may be ended meanwhile
	}
}

// TestStrangers has 400 clients at other addresses than the API server's, which come again and again: the
// webhook answers, and its memory is bounded. They leave the machine time: it is places that they fill.
func TestStrangers(t *testing.T) {
	s := serve(t)
	body := review(t, changed("slurmd", "", "", ""), nil)
	s.ask(t, body)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var made atomic.Int64
	again := time.Tick(10 * time.Millisecond)
	for n := range 400 {
		all.Go(func() {
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n%50))}}
			for ctx.Err() == nil {
				conn, err := from.DialContext(ctx, "tcp", s.address)
				if err != nil {
					continue
				}
				made.Add(1)
				end := context.AfterFunc(ctx, func() { _ = conn.Close() })
				strangers[n%len(strangers)](conn, s.config)
				_, _ = io.Copy(io.Discard, conn) // until the webhook ends it
				end()
				_ = conn.Close()
				select {
				case <-again:
				case <-ctx.Done():
				}
			}
		})
	}
	require.Eventually(t, func() bool { return made.Load() > 400 }, time.Minute, time.Millisecond)
	for range 5 {
		s.client.CloseIdleConnections() // a new connection must find its place, too
		s.ask(t, body)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d connections, heap %d MiB with the strangers' own", made.Load(), memory.HeapInuse>>20)
	stop()
	all.Wait()
	s.ask(t, body)
}

// A client that was asked for nothing more is let end, and the port is closed then.
func TestTheEndLetsRequestsEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	certificates, config := certificate(t)
	ctx, stop := context.WithCancel(t.Context())
	entered, release := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, certificates, slow, slog.New(slog.DiscardHandler))
	}()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answered := make(chan string, 1)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String(), nil)
		response, err := client.Do(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answered <- string(text)
	}()
	<-entered
	stop()
	close(release)
	assert.Equal(t, "done", <-answered)
	require.NoError(t, <-ended)
}
