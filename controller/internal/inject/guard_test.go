package inject

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// crowd plays the callers of a guard, by number.
type crowd struct {
	guard *guard
	all   []*caller
	taken []bool
}

// come has n callers come from an address.
func (c *crowd) come(n int, from byte) {
	for range n {
		ours, _ := net.Pipe()
		one := &caller{Conn: ours, guard: c.guard, from: netip.AddrFrom4([4]byte{127, 0, 0, from}), turn: make(chan struct{})}
		c.all = append(c.all, one)
		c.taken = append(c.taken, c.guard.admit(one, time.Now()))
	}
}

// comeAlone has one caller come from each of n addresses.
func (c *crowd) comeAlone(n int) {
	for k := range n {
		c.come(1, byte(1+k))
	}
}

// state is where a caller is now.
func (c *crowd) state(n int) string {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	switch {
	case slices.Contains(c.guard.placed, c.all[n]):
		return "placed"
	case slices.Contains(c.guard.line, c.all[n]):
		return "waits"
	case !c.taken[n]:
		return "refused"
	}
	return "ended"
}

func (c *crowd) works(from, to int) {
	for _, one := range c.all[from:to] {
		one.works(true)
	}
}

// pass lets time of synctest pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestPlaces says who has a place. The callers of "want" are those that are asked about.
func TestPlaces(t *testing.T) {
	const a = 1
	for name, tt := range map[string]struct {
		play func(*crowd)
		want map[int]string
	}{
		"an address has its share, and others of it wait": {
			func(c *crowd) { c.come(mostOfOne+1, a) },
			map[int]string{0: "placed", mostOfOne - 1: "placed", mostOfOne: "waits"},
		},
		"who ends gives the place to the next": {
			func(c *crowd) { c.come(mostOfOne+2, a); _ = c.all[3].Close() },
			map[int]string{3: "ended", mostOfOne: "placed", mostOfOne + 1: "waits"},
		},
		"who waits ends": {
			func(c *crowd) { c.come(mostOfOne+2, a); _ = c.all[mostOfOne].Close(); _ = c.all[0].Close() },
			map[int]string{mostOfOne: "ended", mostOfOne + 1: "placed"},
		},
		"a quiet one goes for one that waits": {
			func(c *crowd) { c.come(mostOfOne+1, a); pass(quietTime) },
			map[int]string{0: "ended", 1: "placed", mostOfOne: "placed"},
		},
		"a review at work stays": {
			func(c *crowd) { c.come(mostOfOne+1, a); c.works(0, mostOfOne); pass(waitTime - 1) },
			map[int]string{0: "placed", mostOfOne - 1: "placed", mostOfOne: "waits"},
		},
		"who waits in vain ends": {
			func(c *crowd) { c.come(mostOfOne+1, a); c.works(0, mostOfOne); pass(waitTime) },
			map[int]string{0: "placed", mostOfOne: "ended"},
		},
		"too many of one address wait": {
			func(c *crowd) { c.come(mostOfOne+mostWaitOfOne+1, a) },
			map[int]string{mostOfOne + mostWaitOfOne - 1: "waits", mostOfOne + mostWaitOfOne: "refused"},
		},
		"too many wait": {
			func(c *crowd) {
				c.come(mostOfOne+mostWaitOfOne, a)
				c.come(mostOfOne+mostWaitOfOne, a+1)
				c.come(mostOfOne+1, a+2)
			},
			map[int]string{2*(mostOfOne+mostWaitOfOne) + mostOfOne - 1: "placed", 2*(mostOfOne+mostWaitOfOne) + mostOfOne: "refused"},
		},
		"four addresses have all, and one of them loses its oldest to a fifth": {
			func(c *crowd) {
				c.come(mostOfOne-1, a)
				for n := range 3 {
					c.come(mostOfOne, a+1+byte(n))
				}
				c.come(1, a+9)
				c.come(1, a+9)
			},
			map[int]string{0: "placed", mostOfOne - 1: "ended", most - 1: "placed", most: "placed"},
		},
		"of four addresses one has all its reviews at work": {
			func(c *crowd) {
				c.come(mostOfOne, a)
				c.works(0, mostOfOne)
				for n := range 3 {
					c.come(mostOfOne, a+1+byte(n))
				}
				c.come(1, a+9)
			},
			map[int]string{0: "placed", mostOfOne: "ended", most: "placed"},
		},
		"all are of different addresses, and nobody goes at once": {
			func(c *crowd) { c.comeAlone(most + 1) },
			map[int]string{0: "placed", most - 1: "placed", most: "waits"},
		},
		"all are of different addresses, and the oldest has had its time": {
			func(c *crowd) { c.comeAlone(most + 1); pass(quietTime) },
			map[int]string{0: "ended", 1: "placed", most: "placed"},
		},
		"all are of different addresses and quiet, and the next has a place at once": {
			func(c *crowd) { c.comeAlone(most); pass(quietTime); c.come(1, 200) },
			map[int]string{0: "ended", 1: "placed", most: "placed"},
		},
		"an address with two of all loses none for its own": {
			func(c *crowd) { c.comeAlone(most - 2); c.come(3, 200) },
			map[int]string{most - 2: "placed", most - 1: "placed", most: "waits"},
		},
		"one that is quiet stays where another address has more": {
			func(c *crowd) {
				c.come(1, 200)
				pass(quietTime)
				for n := range 42 {
					c.come(3, a+byte(n))
				}
				c.come(3, 201)
			},
			map[int]string{0: "placed", 1: "ended", 2: "placed", most: "placed", most + 1: "waits"},
		},
		"who does something is not quiet": {
			func(c *crowd) {
				c.come(mostOfOne+1, a)
				pass(quietTime / 2)
				c.all[0].works(false)
				pass(quietTime / 2)
			},
			map[int]string{0: "placed", 1: "ended", mostOfOne: "placed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crowd{guard: newGuard(nil, usual)}
				tt.play(c)
				assert.LessOrEqual(t, len(c.guard.placed), most)
				assert.LessOrEqual(t, len(c.guard.line), mostWait)
				for n, want := range tt.want {
					assert.Equal(t, want, c.state(n), n)
				}
				for n, one := range c.all {
					_ = one.Close()
					if c.taken[n] {
						<-one.turn
					}
				}
				assert.Empty(t, c.guard.placed)
				assert.Empty(t, c.guard.line)
			})
		})
	}
}

// TestManyReviewsAtOnce has one address ask for more at once than it has places: all get an answer.
func TestManyReviewsAtOnce(t *testing.T) {
	body := review(t, changed("slurmd", "", "", ""), nil)
	for name, c := range map[string]struct {
		reviews int
		alone   bool
	}{
		"one client":             {64, false},
		"each on its connection": {64, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := serveWith(t, patient, handlerOf(make(slots, workers), time.Minute, func(review []byte) ([]byte, int, error) {
				return answerTo(review, func(p *corev1.Pod) (*Result, field.ErrorList) { return Pod(p, settings) }, slog.New(slog.DiscardHandler))
			}))
			s.client.Transport.(*http.Transport).DisableKeepAlives = c.alone
			var all sync.WaitGroup
			for range c.reviews {
				all.Go(func() { s.ask(t, body) })
			}
			all.Wait()
		})
	}
}

// TestSixtyFourAtWork holds the reviews that have a place until all others wait, and none is ended.
func TestSixtyFourAtWork(t *testing.T) {
	const reviews = 64
	release := make(chan struct{})
	var entered atomic.Int64
	g, s := serveWith(t, patient, handlerOf(make(slots, reviews), time.Minute, func([]byte) ([]byte, int, error) {
		entered.Add(1)
		<-release
		return []byte(`{"allowed":true}`), 0, nil
	}))
	s.client.Transport.(*http.Transport).DisableKeepAlives = true
	var all sync.WaitGroup
	for range reviews {
		all.Go(func() { s.ask(t, []byte("{}")) })
	}
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return entered.Load() == mostOfOne && len(g.line) == reviews-mostOfOne
	}, time.Minute, time.Millisecond)
	close(release)
	all.Wait()
	assert.EqualValues(t, reviews, entered.Load())
}

// TestAClientThatHangsUp gives back its place, and nothing is made for it.
func TestAClientThatHangsUp(t *testing.T) {
	d := make(slots, workers)
	for range workers {
		d <- struct{}{}
	}
	ended := make(chan struct{})
	inner := handlerOf(d, workTime, func([]byte) ([]byte, int, error) { t.Error("somebody works for nobody"); return nil, 0, nil })
	g, s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		inner.ServeHTTP(w, r)
	}))
	ctx, reset := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.address+Path, bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	asked := make(chan error, 1)
	go func() {
		response, err := s.client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		asked <- err
	}()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.placed) == 1 && g.placed[0].atWork
	}, time.Minute, time.Millisecond)
	began := time.Now()
	reset()
	if err := <-asked; err != nil { // on a busy machine the refusal may be there at the same moment
		require.ErrorIs(t, err, context.Canceled)
	}
	<-ended
	assert.Less(t, time.Since(began), workTime)
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.placed) == 0
	}, time.Minute, time.Millisecond)
}

// TestNoHTTP2 has a client that would send many requests on one connection.
func TestNoHTTP2(t *testing.T) {
	s := serve(t)
	s.client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address+Path, nil)
	require.NoError(t, err)
	response, err := s.client.Do(r)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, response.Body)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, 1, response.ProtoMajor)
}

// serveHandler is a server with a handler of the test's own, and its guard.
func serveHandler(t *testing.T, handler http.Handler) (*guard, served) {
	t.Helper()
	return serveWith(t, usual, handler)
}

// patient is a webhook's where a test runs beside many others.
var patient = limits{time.Minute, time.Minute, time.Minute, time.Minute}

func serveWith(t *testing.T, p limits, handler http.Handler) (*guard, served) {
	t.Helper()
	certificates, trusted := certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := newGuard(l, p)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveGuarded(ctx, g, certificates, handler, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return g, served{l.Addr().String(), &http.Client{Transport: &http.Transport{TLSClientConfig: trusted}, Timeout: time.Minute}, trusted}
}

// handlerOf answers on one path.
func handlerOf(d slots, wait time.Duration, one work) http.Handler {
	return handlers(d, wait, map[string]work{Path: one})
}
