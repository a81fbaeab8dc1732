package peerserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// unfinished sends a report with a token, without its last byte.
func (c *controller) unfinished(token string, body []byte) net.Conn {
	conn, err := tls.Dial("tcp", c.addr, &tls.Config{InsecureSkipVerify: true})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(c.t, conn.SetDeadline(time.Now().Add(limit)))
	_, _ = fmt.Fprintf(conn, "POST /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, len(body)+1)
	_, _ = conn.Write(body) // the server may end it at any time
	return conn
}

// TestOneReportOfOnePod: connections of one token hold one body together, and another cluster is heard meanwhile.
func TestOneReportOfOnePod(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.Sync()
	body := bytes.Repeat([]byte(" "), 4<<20) // JSON may begin with them
	const many = 12
	var conns []net.Conn
	for range many {
		conns = append(conns, c.unfinished("evil/pod/slurmctld", body))
	}
	over := make(chan struct{}, many)
	for _, conn := range conns {
		go func() {
			_, _ = io.Copy(io.Discard, conn) // until one of both ends it
			over <- struct{}{}
		}()
	}
	for range many - 1 {
		select {
		case <-over:
		case <-time.After(timeToReport / 2):
			t.Fatal("a later report of the pod does not take the place of the one before")
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	assert.Less(t, m.HeapAlloc>>20, uint64(32), "MiB of %d unfinished reports", many)
	text := "{\"whole\":true,\"nodes\":[{\"name\":\"n\",\"state\":\"idle\"}]}"
	assert.Equal(t, "HTTP/1.1 204 No Content", c.request(fmt.Sprintf("POST /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good/u/slurmctld\r\nContent-Length: %d\r\n\r\n%s", len(text), text)))
}

// TestIntake says which reports have room, and which have to go.
func TestIntake(t *testing.T) {
	const big = mostReport
	type come struct {
		pod  string // namespace/cluster/pod
		size int
		at   time.Duration
		// does is what the delivery does before the next one comes.
		does func(*intake, *delivery)
		code int   // 0: it has room
		out  []int // the deliveries that go
	}
	read := func(in *intake, d *delivery) { in.read(d) }
	answers := func(in *intake, d *delivery) { in.read(d); in.drop(d) }
	leaves := func(in *intake, d *delivery) { in.leave(d) }
	many := func(n int, one come) (all []come) {
		for range n {
			all = append(all, one)
		}
		return all
	}
	for name, all := range map[string][]come{
		"no length":                  {{pod: "a/c/1", size: -1, code: 411}},
		"too long":                   {{pod: "a/c/1", size: big + 1, code: 413}},
		"a pod's next one ends it":   {{pod: "a/c/1", size: big}, {pod: "a/c/1", size: big, out: []int{0}}},
		"a pod's next one waits":     {{pod: "a/c/1", size: big, does: read}, {pod: "a/c/1", size: 1, code: 503}},
		"a pod that reads no answer": {{pod: "a/c/1", size: big, does: answers}, {pod: "a/c/1", size: big, out: []int{0}}},
		"a namespace has its share":  {{pod: "a/c/1", size: big}, {pod: "a/d/2", size: 1, code: 503}, {pod: "b/c/3", size: big}},
		"its slowest one goes":       {{pod: "a/c/1", size: big}, {pod: "b/c/2", size: 1}, {pod: "a/d/3", size: 1, at: 3 * time.Second, out: []int{0}}},
		"one that is there stays":    {{pod: "a/c/1", size: big, does: read}, {pod: "a/d/2", size: 1, at: 3 * time.Second, code: 503}},
		"one that has left":          {{pod: "a/c/1", size: big, does: leaves}, {pod: "a/d/2", size: big}},
		"all have a share":           {{pod: "a/c/1", size: big}, {pod: "b/c/2", size: big}, {pod: "c/c/3", size: big}, {pod: "d/c/4", size: big}, {pod: "e/c/5", size: 1, code: 503}},
		"the slowest of all goes":    {{pod: "a/c/1", size: big}, {pod: "b/c/2", size: big, at: time.Second}, {pod: "c/c/3", size: big, at: time.Second}, {pod: "d/c/4", size: big, at: time.Second}, {pod: "e/c/5", size: 1, at: 3 * time.Second, out: []int{0}}},
		"a cluster has a rate":       append(many(3, come{pod: "a/c/1", size: big, does: leaves}), come{pod: "a/c/1", size: big, code: 429}, come{pod: "a/d/2", size: big, does: leaves}, come{pod: "a/c/1", size: big, at: time.Minute}),
		"a namespace has a rate, too": slices.Concat(
			many(3, come{pod: "a/c/1", size: big, does: leaves}), many(3, come{pod: "a/d/1", size: big, does: leaves}), many(3, come{pod: "a/e/1", size: big, does: leaves}),
			many(3, come{pod: "a/f/1", size: big, does: leaves}), many(3, come{pod: "a/g/1", size: big, does: leaves}),
			[]come{{pod: "a/h/1", size: big, code: 429}, {pod: "b/c/1", size: big}},
		),
		"a short one each 16 ms": append(many(512, come{pod: "a/c/1", size: leastCost * 3, does: leaves}), come{pod: "a/c/1", size: 1, code: 429}, come{pod: "a/c/1", size: 1, at: 20 * time.Millisecond}),
	} {
		t.Run(name, func(t *testing.T) {
			in := newIntake()
			begin := time.Now()
			var ds []*delivery
			for i, one := range all {
				in.now = func() time.Time { return begin.Add(one.at) }
				cluster := one.pod[:strings.LastIndexByte(one.pod, '/')]
				d := &delivery{id: Identity{Cluster: cluster, UID: one.pod}, size: one.size}
				ds = append(ds, d)
				out, err := in.admit(d)
				code := 0
				if why, is := errors.AsType[*NotTaken](err); is {
					code = why.Code
				}
				require.Equal(t, one.code, code, i)
				var gone []*delivery
				for _, n := range one.out {
					gone = append(gone, ds[n])
				}
				require.Equal(t, gone, out, i)
				if one.does != nil {
					one.does(in, d)
				}
				require.LessOrEqual(t, in.onWay, mostOnWay)
			}
			for _, d := range ds {
				in.leave(d)
			}
			assert.Zero(t, in.onWay)
			assert.Empty(t, in.inside)
			assert.Empty(t, in.pods)
		})
	}
}

// TestBuckets: clusters that nobody has heard of for a while cost nothing.
func TestBuckets(t *testing.T) {
	in := newIntake()
	begin := time.Now()
	for n := range 2 * mostBuckets {
		in.now = func() time.Time { return begin.Add(time.Duration(n) * time.Minute) }
		d := &delivery{id: Identity{Cluster: fmt.Sprintf("%d/c", n), UID: "1"}, size: 1}
		_, err := in.admit(d)
		require.NoError(t, err)
		in.leave(d)
	}
	assert.LessOrEqual(t, len(in.buckets), mostBuckets+2)
}

// TestReadReport: what is no report is refused, and what is one comes sorted.
func TestReadReport(t *testing.T) {
	r, err := readReport(strings.NewReader(` { "more": {"a":[1]}, "nodes":[{"name":"b","state":"idle"},{"name":"a","state":"busy","drain":"bad DIMM"}],"whole":true}` + "\n"))
	require.NoError(t, err)
	assert.Equal(t, wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "a", State: wire.Busy, Drain: "bad DIMM"}, {Name: "b", State: wire.Idle}}}, r)
	r, err = readReport(strings.NewReader("{}"))
	require.NoError(t, err)
	assert.Equal(t, wire.Report{}, r)
	for text, want := range map[string]string{
		``:                             "the report is none: EOF",
		`[]`:                           "the report is none: want {",
		`{"nodes":{}}`:                 "the report is none: want [",
		`{"nodes":[{}]}`:               `the report is none: "" is no state of a node`,
		`{"nodes":[{"state":"idle"}]}`: "the report is none: a node's name has 1 to 255 bytes, not 0",
		`{"nodes":[{"name":"a","state":"idle"},{"name":"a","state":"busy"}]}`:                 `the report is none: it has the node "a" twice`,
		`{"nodes":[{"name":"` + strings.Repeat("a", 256) + `","state":"idle"}]}`:              "the report is none: a node's name has 1 to 255 bytes, not 256",
		`{"nodes":[{"name":"a","state":"idle","drain":"` + strings.Repeat("a", 257) + `"}]}`:  "the report is none: the reason of a drain has 256 bytes at most, not 257",
		`{"nodes":[{"name":"a","state":"idle","elastic":"` + strings.Repeat("a", 64) + `"}]}`: "the report is none: the name of a node set has 63 bytes at most, not 64",
		`{} {}`: "the report is none: something follows it",
		`{"nodes":[` + strings.Repeat(`{"name":"a","state":"idle"},`, mostNodes) + `{"name":"b"}]}`: "the report has more than 65536 nodes, which is the most that Slurm has",
		`{"nodes":[` + strings.Repeat(`{"name":"a","state":"idle"},`, mostNodes/2):                  "the report is none: EOF",
	} {
		_, err := readReport(strings.NewReader(text))
		assert.EqualError(t, err, want, "%.80s", text)
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add(`{"whole":true,"nodes":[{"name":"a","state":"idle","drain":"x","elastic":"s","wanted":true}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readReport(strings.NewReader(text))
		if err != nil {
			_, is := errors.AsType[*NotTaken](err)
			assert.True(t, is)
			return
		}
		again, err := json.Marshal(r)
		require.NoError(t, err)
		same, err := readReport(bytes.NewReader(again))
		require.NoError(t, err)
		assert.Len(t, same.Nodes, len(r.Nodes))
	})
}

// TestNotTaken: slurmctld's agent and the controller hear why a report is not taken.
func TestNotTaken(t *testing.T) {
	heard := make(chan string, 10)
	full := &NotTaken{http.StatusRequestEntityTooLarge, TooManyNodes, "the cluster one has 3 nodes, and 2 are allowed"}
	c := newController(t, ServerOptions{NotTaken: func(id Identity, why *NotTaken) { heard <- id.Pod + " " + why.Reason }})
	c.Reported = func(Identity, wire.Report) error { return full }
	c.put(pod("ctl", "u0", "10.0.0.1", 0))
	c.Sync()
	said := make(chan string, 10)
	agent := c.client("one/u0/slurmctld", peers.ClientOptions{Log: func(_ slog.Level, text string, attrs ...slog.Attr) { said <- fmt.Sprint(text, attrs) }})
	agent.wait(t, "ctl")
	r := peers.NewReporter()
	r.Follow(agent.Client)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Idle}}, time.Now())
	select {
	case one := <-heard:
		assert.Equal(t, "u0 TooManyNodes", one)
	case <-time.After(limit):
		t.Fatal("the controller hears nothing")
	}
	for text := ""; !strings.Contains(text, "cannot report to the controller what the nodes do"); {
		select {
		case text = <-said:
		case <-time.After(limit):
			t.Fatal("slurmctld's agent says nothing")
		}
		if strings.Contains(text, "cannot tell") {
			assert.Contains(t, text, "the controller answers 413 Request Entity Too Large: the cluster one has 3 nodes, and 2 are allowed")
		}
	}
	s := c.Stats()
	assert.Equal(t, uint64(1), s.NotTakenTotal[TooManyNodes], "the agent waits a minute")
	assert.Zero(t, s.ReportsTotal)
}
