package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake runs "verbs" that show what arrived.
type fake struct {
	web  string
	done chan string
}

func (f *fake) Execute(ctx context.Context, c Command) int {
	switch c.Args[0] {
	case "cat":
		_, _ = io.Copy(c.Stdout, c.Stdin)
	case "args":
		fmt.Fprintf(c.Stdout, "%q", c.Args[1:])
		fmt.Fprint(c.Stderr, "and errors")
		return 42
	case "signal":
		fmt.Fprint(c.Stdout, "waiting")
		return len(<-c.Signals)
	case "terminal":
		fmt.Fprintf(c.Stdout, "%s %v\n", c.Terminal.Term, c.Terminal.Size)
		fmt.Fprint(c.Stdout, <-c.Terminal.Sizes)
	case "for-ever":
		fmt.Fprint(c.Stdout, "waiting")
		<-ctx.Done()
		f.done <- "ended"
	}
	return 0
}

func (f *fake) Dial(ctx context.Context, pod, to string) (net.Conn, error) {
	if pod != "web" || to != "80" && to != "/run/web.sock" {
		return nil, fmt.Errorf("no %s in pod %q", to, pod)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", f.web)
}

// serve returns a client of a server on a unix socket.
func serve(t *testing.T, f *fake) *Client {
	keys, err := MakeKeys(t.TempDir())
	require.NoError(t, err)
	socket := listen(t, NewServer(keys.Server, keys.Client.PublicKey(), f))
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	client, err := NewClient(conn, keys, 10*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func listen(t *testing.T, s *Server) string {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		require.ErrorIs(t, <-done, net.ErrClosed)
	})
	return socket
}

func TestRun(t *testing.T) {
	client := serve(t, &fake{})
	var out, errs bytes.Buffer
	code, err := client.Run(t.Context(), []string{"args", "a b", `"`, "", "ü"}, Streams{Stdout: &out, Stderr: &errs})
	require.NoError(t, err)
	assert.Equal(t, 42, code)
	assert.Equal(t, `["a b" "\"" "" "ü"]`, out.String())
	assert.Equal(t, "and errors", errs.String())
}

func TestLargeStreams(t *testing.T) {
	client := serve(t, &fake{})
	want := strings.Repeat("0123456789abcdef", 1<<18)
	var out bytes.Buffer
	code, err := client.Run(t.Context(), []string{"cat"}, Streams{Stdin: strings.NewReader(want), Stdout: &out})
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Equal(t, want, out.String())
}

// A terminal's input never ends: the command's end must be enough.
func TestOpenInput(t *testing.T) {
	client := serve(t, &fake{})
	in, keep := io.Pipe()
	defer keep.Close()
	code, err := client.Run(t.Context(), []string{"args"}, Streams{Stdin: in})
	require.NoError(t, err)
	assert.Equal(t, 42, code)
}

func TestSignal(t *testing.T) {
	client := serve(t, &fake{})
	signals := make(chan string, 1)
	signals <- "TERM"
	code, err := client.Run(t.Context(), []string{"signal"}, Streams{Signals: signals})
	require.NoError(t, err)
	assert.Equal(t, len("TERM"), code)
}

func TestTerminal(t *testing.T) {
	client := serve(t, &fake{})
	sizes := make(chan Size, 1)
	sizes <- Size{100, 50}
	var out bytes.Buffer
	_, err := client.Run(t.Context(), []string{"terminal"}, Streams{Stdout: &out, Terminal: &Terminal{Term: "xterm", Size: Size{80, 24}, Sizes: sizes}})
	require.NoError(t, err)
	assert.Equal(t, "xterm {80 24}\n{100 50}", out.String())
}

func TestCancelEndsTheCommand(t *testing.T) {
	f := &fake{done: make(chan string)}
	client := serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	started := writerFunc(func([]byte) { cancel() })
	_, err := client.Run(ctx, []string{"for-ever"}, Streams{Stdout: started})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "ended", <-f.done)
}

func TestLostConnectionEndsTheCommand(t *testing.T) {
	f := &fake{done: make(chan string)}
	client := serve(t, f)
	_, err := client.Run(t.Context(), []string{"for-ever"}, Streams{Stdout: writerFunc(func([]byte) { client.Close() })})
	require.ErrorContains(t, err, "lost the sandbox")
	assert.Equal(t, "ended", <-f.done)
}

func TestDial(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.URL.Path) }))
	defer web.Close()
	client := serve(t, &fake{web: web.Listener.Addr().String()})
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return client.Dial(ctx, address) }}}
	response, err := h.Get("http://web/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, "hello /readyz", string(body))

	_, err = client.Dial(t.Context(), "other:80")
	assert.ErrorContains(t, err, `no 80 in pod "other"`)

	for address, refusal := range map[string]string{"web:/run/web.sock": "", "web:/run/other": "no /run/other in pod \"web\""} {
		conn, err := client.Dial(t.Context(), address)
		if refusal != "" {
			assert.ErrorContains(t, err, refusal)
			continue
		}
		require.NoError(t, err)
		assert.NoError(t, conn.Close())
	}
}

func TestOnlyItsOwnClient(t *testing.T) {
	keys, err := MakeKeys(t.TempDir())
	require.NoError(t, err)
	others, err := MakeKeys(t.TempDir())
	require.NoError(t, err)
	socket := listen(t, NewServer(keys.Server, keys.Client.PublicKey(), &fake{}))
	for _, wrong := range []Keys{{Server: keys.Server, Client: others.Client}, {Server: others.Server, Client: keys.Client}} {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		_, err = NewClient(conn, wrong, 10*time.Second)
		assert.ErrorContains(t, err, "cannot greet")
	}
}

// A greeting has its limit, and what follows it has none.
func TestTheLimitIsTheGreetings(t *testing.T) {
	keys, err := MakeKeys(t.TempDir())
	require.NoError(t, err)
	silent, theirs := net.Pipe()
	defer theirs.Close()
	_, err = NewClient(silent, keys, 10*time.Millisecond)
	require.ErrorContains(t, err, "it took longer than 10ms")

	const limit = time.Second
	conn, err := net.Dial("unix", listen(t, NewServer(keys.Server, keys.Client.PublicKey(), &fake{})))
	require.NoError(t, err)
	began := time.Now()
	client, err := NewClient(conn, keys, limit)
	require.NoError(t, err)
	defer client.Close()
	<-time.After(time.Until(began.Add(limit + 50*time.Millisecond)))
	_, err = client.Run(t.Context(), []string{"exit", "0"}, Streams{})
	require.NoError(t, err)
}

func TestKeysArePrivate(t *testing.T) {
	dir := t.TempDir()
	_, err := MakeKeys(dir)
	require.NoError(t, err)
	for _, name := range []string{serverKey, clientKey} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

func TestDecode(t *testing.T) {
	for _, bad := range []string{"", "rm -rf /", "[]", "{}", `["a", 1]`} {
		_, err := decode(bad)
		assert.Error(t, err, bad)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
