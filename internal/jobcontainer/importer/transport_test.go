package importer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ask gets what a server has, with short pauses.
func ask(t *testing.T, server *httptest.Server, still time.Duration) (string, error) {
	t.Helper()
	patient := &transport{
		base: http.DefaultTransport.(*http.Transport).Clone(), waits: []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond},
		still: still, say: t.Logf,
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	response, err := patient.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return response.Status, err
	}
	return string(text), err
}

func TestTransport(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for name, c := range map[string]struct {
		// answer is the answer to the nth request, from 1.
		answer func(n int, w http.ResponseWriter, r *http.Request)
		asked  int
		want   string
		fails  string
	}{
		"it is well": {func(_ int, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }, 1, text, ""},
		"two 503s": {func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, text)
		}, 3, text, ""},
		"503 for good": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 4, "503 Service Unavailable", ""},
		"404":          {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, 1, "404 Not Found", ""},
		"a connection that ends at once": {func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 3 {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, text)
		}, 3, text, ""},
		"a cut after each 3000 bytes, and ranges": {func(_ int, w http.ResponseWriter, r *http.Request) {
			from := 0
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
				w.Header().Set("Content-Length", fmt.Sprint(len(text)-from))
				w.WriteHeader(http.StatusPartialContent)
			} else {
				w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			}
			fmt.Fprint(w, text[from:min(from+3000, len(text))])
			if from+3000 < len(text) {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
		}, 4, text, ""},
		"a cut, and no ranges": {func(n int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			if n == 1 {
				fmt.Fprint(w, text[:3000])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, text)
		}, 2, text, ""},
		"cuts without progress": {func(n int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			if n > 1 {
				w.WriteHeader(http.StatusPartialContent)
			}
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 4, "", "has sent 0 of 10000 bytes"},
		"a body that stands still": {func(n int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			if n == 1 {
				fmt.Fprint(w, text[:3000])
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return
			}
			fmt.Fprint(w, text)
		}, 2, text, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.answer(int(asked.Add(1)), w, r)
			}))
			defer server.Close()
			still := time.Minute
			if strings.Contains(name, "still") {
				still = 200 * time.Millisecond
			}
			got, err := ask(t, server, still)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
			}
			assert.EqualValues(t, c.asked, asked.Load())
		})
	}
}

func TestTransportRefusesPlainHTTP(t *testing.T) {
	for url, plain := range map[string]bool{
		"http://127.0.0.1:5000/": true, "http://localhost/": true, "http://[::1]:5000/": true, "https://r.example/": true,
		"http://r.example/": false, "http://10.0.0.1:5000/": false,
	} {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		require.NoError(t, err)
		if plain {
			require.NoError(t, (&transport{}).allowed(request), url)
		} else {
			require.ErrorContains(t, (&transport{}).allowed(request), "plain HTTP", url)
		}
		require.NoError(t, (&transport{plain: true}).allowed(request), url)
	}
}

func TestTransportIsCancelled(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	patient := &transport{base: http.DefaultTransport, waits: []time.Duration{time.Hour}, still: time.Hour, say: func(string, ...any) { cancel() }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	response, err := patient.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	require.ErrorIs(t, err, context.Canceled)
}

func TestRedacted(t *testing.T) {
	err := redacted(fmt.Errorf(`Get "https://s3.example/blob?X-Amz-Signature=secret": EOF`))
	assert.EqualError(t, err, `Get "https://s3.example/blob?…": EOF`)
}
