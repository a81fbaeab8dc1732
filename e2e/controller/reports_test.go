//go:build e2e

package controller

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestReportsFlood: what one token can send costs the leader little, and other clusters notice nothing.
func TestReportsFlood(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.namespace("hpc")
	b.namespace("evil")
	b.run([]story{{"one token floods the leader with reports", reportsFlood}, {"the chart gives the rights that are used", rights}})
}

const (
	// floods is how many connections of one token there are, and mostResident the memory of the leader meanwhile.
	floods       = 500
	mostResident = 150 << 20
)

// good is a cluster that notices nothing.
type good struct {
	*agent
	b    *bed
	pod  *corev1.Pod
	tell func(...wire.NodeReport)
	busy bool
}

func reportsFlood(b *bed) {
	r := b.replica()
	r.ready()
	b.node("m1")
	g := &good{b: b, agent: b.agent(b.pod(spec{"hpc", "g-slurmctld-0", "g", "slurmctld", "", "", "", []string{"10.1.0.1"}}))}
	g.pod = b.pod(spec{"hpc", "g-cpu-0", "g", "slurmd", "cpu", "", "m1", []string{"10.1.0.2"}})
	g.has("g-cpu-0", "10.1.0.2")
	g.tell = g.reports(b, wire.NodeReport{Name: "g-cpu-0", State: wire.Idle})
	g.notices()

	evil := b.pod(spec{"evil", "e-slurmctld-0", "e", "slurmctld", "", "", "", []string{"10.2.0.1"}})
	token := b.token("evil", "default", evil, wire.Audience)
	before := resident(r)
	const tries = 4
	for n := 0; n < tries; {
		var text bytes.Buffer
		fmt.Fprintf(&text, `{"whole":%v,"nodes":[`, n == 0)
		for i := range 100_000 {
			fmt.Fprintf(&text, `{"name":"n%d-%06d","state":"idle"},`, n, i)
		}
		text.WriteString(`{"name":"n","state":"idle"}]}`)
		answer, err := http.ReadResponse(bufio.NewReader(b.report(r, token, text.Len(), text.Bytes())), nil)
		require.NoError(b, err)
		said, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusMisdirectedRequest { // a loaded kube-apiserver has not renewed its Lease in time
			b.leader()
			continue
		}
		n++
		assert.Equal(b, "413 the report has more than 65536 nodes, which is the most that Slurm has\n", fmt.Sprint(answer.StatusCode, " ", string(said)))
	}
	b.event(evil, peerserver.TooManyNodes, "The controller does not take what slurmctld's agent tells of the nodes of the cluster evil/e: the report has more than 65536 nodes, which is the most that Slurm has.")
	assert.InDelta(b, tries, r.metric(`slurmlet_controller_reports_not_taken_total{reason="TooManyNodes"}`), 0)
	g.notices()
	b.Logf("%d reports of 100,001 nodes: the leader has %d MiB, and had %d", tries, resident(r)>>20, before>>20)

	body := bytes.Repeat([]byte(" "), 1<<20) // JSON may begin with them
	for n := range floods {
		conn := b.report(r, token, len(body)+1, body)
		b.Cleanup(func() { _ = conn.Close() })
		if n%100 == 99 {
			require.Less(b, resident(r), mostResident, "after %d connections", n+1)
			g.notices()
		}
	}
	b.Logf("%d connections, each with a body of 1 MiB that lacks its last byte: the leader has %d MiB", floods, resident(r)>>20)
	assert.GreaterOrEqual(b, r.metric("slurmlet_controller_reports_ended_total"), 10.0, "a later report of the pod takes the place of the one before")
	assert.Positive(b, r.metric(`slurmlet_controller_reports_not_taken_total{reason="TooOften"}`))
	assert.InDelta(b, 1, r.metric("slurmlet_controller_reported_nodes"), 0)
	assert.Equal(b, 1, g.client.Status().Streams, "no agent has lost its stream")
}

// notices: the cluster's node becomes busy or idle, and its pod's condition follows.
func (g *good) notices() {
	g.b.Helper()
	state, want := wire.Busy, "False Busy"
	if g.busy {
		state, want = wire.Idle, "True Idle"
	}
	began := time.Now()
	g.tell(wire.NodeReport{Name: "g-cpu-0", State: state})
	g.b.eventually(patience, "the pod is "+want, func() bool { return condition(g.b.read(g.pod), "slurmlet.dev/Idle") == want })
	assert.Less(g.b, time.Since(began), 2*atOnce)
	g.busy = !g.busy
}

// resident is the memory of a replica's process.
func resident(r *replica) int { return int(r.metric("process_resident_memory_bytes")) }

// report begins a report with a token, which says its length, and sends what there is of the body.
func (b *bed) report(r *replica, token string, length int, body []byte) net.Conn {
	b.Helper()
	raw, err := dialFrom("127.0.0.9", r.peers)
	require.NoError(b, err)
	trusted := x509.NewCertPool()
	text, err := os.ReadFile(b.bundle("evil"))
	require.NoError(b, err)
	require.True(b, trusted.AppendCertsFromPEM(text))
	conn := tls.Client(raw, &tls.Config{RootCAs: trusted, ServerName: home + "." + home + ".svc"})
	require.NoError(b, conn.SetDeadline(time.Now().Add(patience)))
	_, _ = fmt.Fprintf(conn, "POST /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, length)
	_, _ = conn.Write(body) // the controller may end it at any time
	return conn
}
