package proof

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

// ring has one key, or of several the first signs.
func ring(t testing.TB, names ...string) func() *keyring.Ring {
	t.Helper()
	r := &keyring.Ring{}
	if names[0] == keyring.KeyFile { // its key has no name
		var err error
		r, err = keyring.Parse(map[string][]byte{keyring.KeyFile: bytes.Repeat([]byte("k"), 1024)})
		require.NoError(t, err)
		return func() *keyring.Ring { return r }
	}
	for _, name := range names {
		key, err := keyring.NewKey(name, bytes.Repeat([]byte(name), 16), time.Time{})
		require.NoError(t, err)
		r.Keys = append(r.Keys, key)
	}
	return func() *keyring.Ring { return r }
}

// bench is a Verifier with a clock of its own.
type bench struct {
	*Verifier
	at time.Time
}

func newBench(t testing.TB, names ...string) *bench {
	b := &bench{Verifier: &Verifier{Keys: ring(t, names...)}, at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	b.now = func() time.Time { return b.at }
	return b
}

func (b *bench) challenge(t testing.TB) id {
	t.Helper()
	w := httptest.NewRecorder()
	b.ServeHTTP(w, httptest.NewRequest(http.MethodGet, ChallengePath, nil))
	c, err := parseID(w.Body.String())
	require.NoError(t, err)
	return c
}

// arrived is a request as a server reads it.
func arrived(method, uri, header string) *http.Request {
	return &http.Request{Method: method, RequestURI: uri, Header: http.Header{"Authorization": {header}}}
}

const path = "/change?node=n1&verb=delete"

func (b *bench) signed(t testing.TB, keys func() *keyring.Ring) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://ctl"+path, nil)
	sign(keys(), r, b.challenge(t))
	return r.Header.Get("Authorization")
}

// TestVerify: whose requests are taken, and when.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name string
		keys []string // the client's; the server has a and b
		// change is what happens on the way.
		change func(b *bench, r *http.Request)
		want   error
	}{
		{"as it was sent", []string{"a"}, nil, nil},
		{"with the other key of a rotation", []string{"b", "a"}, nil, nil},
		{"with another cluster's key", []string{"c"}, nil, ErrForged},
		{"just in time", []string{"a"}, func(b *bench, _ *http.Request) { b.at = b.at.Add(2*periodLength - time.Millisecond) }, nil},
		{"too late", []string{"a"}, func(b *bench, _ *http.Request) { b.at = b.at.Add(2 * periodLength) }, ErrLate},
		{"far too late", []string{"a"}, func(b *bench, _ *http.Request) { b.at = b.at.Add(time.Hour) }, ErrLate},
		{"after the clock was set back", []string{"a"}, func(b *bench, _ *http.Request) { b.at = b.at.Add(-time.Hour) }, ErrLate},
		{"for a server that is gone", []string{"a"}, func(b *bench, _ *http.Request) { b.present, b.former = period{}, period{} }, ErrLate},
		{"another node", []string{"a"}, func(_ *bench, r *http.Request) { r.RequestURI = strings.Replace(path, "n1", "n2", 1) }, ErrForged},
		{"another verb", []string{"a"}, func(_ *bench, r *http.Request) { r.RequestURI = strings.Replace(path, "delete", "resume", 1) }, ErrForged},
		{"another method", []string{"a"}, func(_ *bench, r *http.Request) { r.Method = http.MethodHead }, ErrForged},
		{"without a proof", []string{"a"}, func(_ *bench, r *http.Request) { r.Header.Del("Authorization") }, ErrUnsigned},
		{"with another scheme", []string{"a"}, func(_ *bench, r *http.Request) { r.Header.Set("Authorization", "Basic eDp5") }, ErrForm},
		{"a long header", []string{"a"}, func(_ *bench, r *http.Request) {
			r.Header.Set("Authorization", r.Header.Get("Authorization")+strings.Repeat("00", mostHeader))
		}, ErrForm},
		{"a long path", []string{"a"}, func(_ *bench, r *http.Request) { r.RequestURI += strings.Repeat("x", mostURI) }, ErrForm},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "a", "b")
			r := arrived(http.MethodGet, path, b.signed(t, ring(t, c.keys...)))
			if c.change != nil {
				c.change(b, r)
			}
			s, err := b.Verify(r)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				require.Nil(t, s)
				return
			}
			require.NoError(t, err)
			_, err = b.Verify(r)
			require.ErrorIs(t, err, ErrRepeated)
			b.at = b.at.Add(periodLength)
			_, err = b.Verify(r)
			require.Error(t, err, "repeated later")
		})
	}
}

// TestVerifierIsBounded: nothing is kept of what is refused, and no more than so many of what is taken.
func TestVerifierIsBounded(t *testing.T) {
	b := newBench(t, "a")
	for range 100 {
		_, err := b.Verify(arrived(http.MethodGet, path, b.signed(t, ring(t, "c"))))
		require.ErrorIs(t, err, ErrForged)
	}
	require.Empty(t, b.present.numbers)
	for len(b.present.numbers) < mostAccepted {
		b.present.numbers[newID()] = true
	}
	_, err := b.Verify(arrived(http.MethodGet, path, b.signed(t, ring(t, "a"))))
	require.ErrorIs(t, err, ErrTooMany)
	b.at = b.at.Add(periodLength)
	_, err = b.Verify(arrived(http.MethodGet, path, b.signed(t, ring(t, "a"))))
	require.NoError(t, err)
	b.at = b.at.Add(3 * periodLength)
	b.challenge(t)
	require.Empty(t, b.former.numbers, "those of long ago are forgotten")
}

// served is a real server, which may be one that cheats.
func served(t *testing.T, names []string, cheat func(w *httptest.ResponseRecorder)) string {
	v := &Verifier{Keys: func() *keyring.Ring { return nil }}
	if len(names) > 0 {
		v.Keys = ring(t, names...)
	}
	var one sync.Mutex
	mux := http.NewServeMux()
	mux.Handle("GET "+ChallengePath, v)
	mux.HandleFunc("GET /change", func(w http.ResponseWriter, r *http.Request) {
		s, err := v.Verify(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		s.Write(w, "text/plain", "done "+r.URL.Query().Get("node"))
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		said := httptest.NewRecorder()
		mux.ServeHTTP(said, r)
		if cheat != nil {
			cheat(said)
		}
		maps.Copy(w.Header(), said.Header())
		w.WriteHeader(said.Code)
		_, _ = w.Write(said.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestGet: which answers are taken.
func TestGet(t *testing.T) {
	altered := func(text string) func(w *httptest.ResponseRecorder) {
		return func(w *httptest.ResponseRecorder) {
			if w.Header().Get(answerHeader) != "" {
				w.Body = bytes.NewBufferString(text)
			}
		}
	}
	var former string
	for _, c := range []struct {
		name           string
		server, client []string
		cheat          func(w *httptest.ResponseRecorder)
		want           error
	}{
		{"as it was sent", []string{"a"}, []string{"a"}, nil, nil},
		{"with slurm.key", []string{keyring.KeyFile}, []string{keyring.KeyFile}, nil, nil},
		{"another cluster's agent asks", []string{"a"}, []string{"c"}, nil, ErrRefused},
		{"one without a key asks", []string{"a"}, nil, nil, ErrNoKey},
		{"one without a key answers", nil, []string{"a"}, nil, ErrNotOffered},
		{"an altered answer", []string{"a"}, []string{"a"}, altered("done n2"), ErrNotProved},
		{"an empty answer", []string{"a"}, []string{"a"}, altered(""), ErrNotProved},
		{"another type", []string{"a"}, []string{"a"}, func(w *httptest.ResponseRecorder) { w.Header().Set("Content-Type", "text/html") }, ErrNotProved},
		{"without a signature", []string{"a"}, []string{"a"}, func(w *httptest.ResponseRecorder) { w.Header().Del(answerHeader) }, ErrNotProved},
		{"the answer to an earlier request", []string{"a"}, []string{"a"}, func(w *httptest.ResponseRecorder) {
			if is := w.Header().Get(answerHeader); is != "" && former == "" {
				former = is
			}
			if former != "" {
				w.Header().Set(answerHeader, former)
			}
		}, nil}, // and the second one is refused
		{"no challenge", []string{"a"}, []string{"a"}, func(w *httptest.ResponseRecorder) { w.Body = bytes.NewBufferString("hello") }, ErrNotOffered},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := Client{Keys: func() *keyring.Ring { return nil }}
			if c.client != nil {
				client.Keys = ring(t, c.client...)
			}
			address := served(t, c.server, c.cheat)
			a, err := client.Get(t.Context(), address, path)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				require.Zero(t, a)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Answer{"text/plain", "done n1"}, a)
			_, err = client.Get(t.Context(), address, path)
			if former != "" {
				require.ErrorIs(t, err, ErrNotProved)
				return
			}
			require.NoError(t, err)
		})
	}
}

// TestNewAgent: a challenge of an agent that has ended meanwhile is asked for again.
func TestNewAgent(t *testing.T) {
	challenges := 0
	address := served(t, []string{"a"}, func(w *httptest.ResponseRecorder) {
		if w.Body.Len() != len(newID().String()) {
			return
		}
		if challenges++; challenges == 1 {
			w.Body = bytes.NewBufferString(newID().String())
		}
	})
	client := Client{Keys: ring(t, "a")}
	a, err := client.Get(t.Context(), address, path)
	require.NoError(t, err)
	require.Equal(t, "done n1", a.Text)
	require.Equal(t, 2, challenges)
}

// TestNobodyIsThere: a question ends with its context.
func TestNobodyIsThere(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := Client{Keys: ring(t, "a")}
	_, err := client.Get(ctx, "127.0.0.1:1", path)
	require.Error(t, err)
	_, err = GetUnsigned(t.Context(), "127.0.0.1:1", path) // tcpmux, which nobody has
	require.Error(t, err)
}

// FuzzVerify: of a signed request, only what was sent is taken, once, and in time.
func FuzzVerify(f *testing.F) {
	b := newBench(f, "a")
	valid := b.signed(f, ring(f, "a"))
	f.Add("GET", path, valid, 0)
	f.Add("GET", path, strings.Replace(valid, "Slurmlet1", "Slurmlet2", 1), 0)
	f.Add("GET", path+"&", valid, 1)
	f.Add("HEAD", path, valid, 11_000)
	f.Add("GET", path, b.signed(f, ring(f, "c")), 0)
	f.Add("GET", path, strings.ToUpper(valid), 0)
	f.Add("GET", path, valid+"00", 0)
	f.Fuzz(func(t *testing.T, method, uri, header string, after int) {
		for _, alter := range []string{header, valid} {
			v := *b.Verifier
			v.present.numbers = map[id]bool{}
			at := b.at.Add(time.Duration(after) * time.Millisecond)
			v.now = func() time.Time { return at }
			genuine := method == http.MethodGet && uri == path && alter == valid
			intime := after >= 0 && at.Sub(b.present.since) < 2*periodLength
			s, err := v.Verify(arrived(method, uri, alter))
			require.Equal(t, genuine && intime, err == nil, "%v", err)
			require.Equal(t, err == nil, s != nil)
			_, err = v.Verify(arrived(method, uri, alter))
			require.Error(t, err, "a second time")
		}
	})
}

// FuzzAnswer: of a signed answer, only what was sent is taken, and to its own request.
func FuzzAnswer(f *testing.F) {
	keys := ring(f, "a")()
	to := signature{"a", bytes.Repeat([]byte{7}, keyring.MACSize)}
	name, mac := keys.Sign(answerPurpose, answer{to, http.StatusOK, "text/plain", "done n1"}.text())
	valid := signature{name, mac}.String()
	f.Add("text/plain", "done n1", valid, []byte(nil))
	f.Add("text/plaindone ", "n1", valid, []byte(nil))
	f.Add("text/plain", "done n2", valid, []byte("x"))
	f.Add("", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, kind, text, header string, other []byte) {
		asked := to
		if len(other) > 0 {
			asked.mac = other
		}
		genuine := kind == "text/plain" && text == "done n1" && bytes.Equal(asked.mac, to.mac)
		for _, h := range []string{header, valid} {
			require.Equal(t, genuine && h == valid, proved(keys, asked, Answer{kind, text}, h, time.Now()), "%q", h)
		}
	})
}

// BenchmarkStranger is what a forged request costs slurmctld's agent beyond its HTTP.
func BenchmarkStranger(b *testing.B) {
	v := newBench(b, "a")
	r := arrived(http.MethodGet, path, v.signed(b, ring(b, "c")))
	for b.Loop() {
		if _, err := v.Verify(r); err == nil {
			b.Fatal("it is taken")
		}
	}
}
