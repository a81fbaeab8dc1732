package fakecontroller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Queue plays the controller of pods in Slurm's queue: it gives orders to the gateway, and says which pods are on a node.
type Queue struct {
	lock    sync.Mutex
	changed chan struct{} // closed and made anew with each change
	gateway string
	orders  []wire.Order
	results map[string]wire.OrderResult
	jobs    map[uint32]wire.QueuedJob
	started map[place]int
	ending  map[uint32]int
	pods    map[place][]string
	asked   map[place]int
	silent  bool
	number  int
}

// place is a job on a node.
type place struct {
	job  uint32
	node string
}

// held is for how long an answer is kept back.
const held = 3 * time.Second

// StartQueue serves the peers, and plays the controller of pods in Slurm's queue.
func StartQueue() (*Server, *Queue, error) {
	s, err := start(nil, behind)
	if err != nil {
		return nil, nil, err
	}
	q := &Queue{
		changed: make(chan struct{}), results: map[string]wire.OrderResult{}, jobs: map[uint32]wire.QueuedJob{}, started: map[place]int{},
		ending: map[uint32]int{}, pods: map[place][]string{}, asked: map[place]int{},
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.ca)
	mux := http.NewServeMux()
	mux.Handle("/", passOn(&tls.Config{RootCAs: roots, ServerName: native.Address, MinVersion: tls.VersionTLS13}))
	mux.HandleFunc("POST /v1/gateway", q.takeReport)
	mux.HandleFunc("POST /v1/jobs/started", q.takeStarted)
	mux.HandleFunc("GET /v1/jobs/pods", q.tellPods)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot serve the queue: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: native.Limit, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{s.pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
	}}
	go func() { _ = server.ServeTLS(l, "", "") }()
	return s, q, nil
}

// passOn has the peers' server answer, which takes the connections of its streams for itself.
func passOn(config *tls.Config) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		to, err := tls.Dial("tcp", behind, config)
		if err == nil {
			defer to.Close()
			err = r.Write(to)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		go func() {
			_, _ = io.Copy(io.Discard, from) // until the agent leaves
			_ = to.Close()
		}()
		_, _ = io.Copy(from, to) // until one of them leaves
	}
}

// change runs f, and wakes all who wait.
func (q *Queue) change(f func()) {
	q.lock.Lock()
	defer q.lock.Unlock()
	f()
	close(q.changed)
	q.changed = make(chan struct{})
}

// await waits until is says so, for some time.
func (q *Queue) await(ctx context.Context, limit time.Duration, is func() bool) bool {
	late := time.After(limit)
	for {
		q.lock.Lock()
		now, changed := is(), q.changed
		q.lock.Unlock()
		if now {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-late:
			return false
		case <-changed:
		}
	}
}

func (q *Queue) takeReport(w http.ResponseWriter, r *http.Request) {
	var report wire.GatewayReport
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := wire.GatewayOrders{}
	q.change(func() {
		if answer.All = report.Gateway != q.gateway && !report.Whole; answer.All {
			return
		}
		q.gateway = report.Gateway
		for _, j := range report.Jobs {
			q.jobs[j.ID] = j
		}
		for _, one := range report.Results {
			q.results[one.Order] = one
		}
	})
	if !answer.All {
		q.await(r.Context(), held, func() bool { return len(q.orders) > 0 })
		q.change(func() { answer.Orders, q.orders = q.orders, nil })
	}
	writeJSON(w, answer)
}

// tokenOf is the UID of the pod that asks.
func tokenOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func (q *Queue) takeStarted(w http.ResponseWriter, r *http.Request) {
	var said wire.Started
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.change(func() {
		if said.Ending {
			q.ending[said.Job]++
		} else {
			q.started[place{said.Job, tokenOf(r)}]++
		}
	})
	w.WriteHeader(http.StatusNoContent)
}

func (q *Queue) tellPods(w http.ResponseWriter, r *http.Request) {
	job, _ := strconv.ParseUint(r.FormValue("job"), 10, 32) // none is 0
	at := place{uint32(job), r.FormValue("node")}
	var pods []string
	silent := false
	q.change(func() { q.asked[at]++ })
	q.await(r.Context(), held, func() bool {
		silent, pods = q.silent, nil
		for where, some := range q.pods {
			if where.node == at.node && (where.job == at.job || at.job == 0) {
				pods = append(pods, some...)
			}
		}
		return silent || len(pods) == 0
	})
	switch {
	case silent:
		http.Error(w, "this replica does not know all pods yet", http.StatusServiceUnavailable)
	case len(pods) == 0:
		w.WriteHeader(http.StatusNoContent)
	default:
		slices.Sort(pods)
		writeJSON(w, wire.JobPods{Pods: pods})
	}
}

func writeJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// Order has the gateway carry out an order, and returns what has become of it.
func (q *Queue) Order(o wire.Order) (wire.OrderResult, error) {
	q.change(func() {
		q.number++
		o.ID = strconv.Itoa(q.number)
		q.orders = append(q.orders, o)
	})
	var result wire.OrderResult
	done := q.await(context.Background(), native.Limit, func() bool {
		var is bool
		result, is = q.results[o.ID]
		return is
	})
	if !done {
		return result, fmt.Errorf("the gateway has not carried out the order to %s", o.Kind)
	}
	return result, nil
}

// Job is what the gateway has told last of a job.
func (q *Queue) Job(id uint32) wire.QueuedJob {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.jobs[id]
}

// Started says how often a node has said that it holds for a job, and Ending how often a script that it is to end.
func (q *Queue) Started(job uint32, node string) int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.started[place{job, node}]
}

// Ending is how often the controller was told that a job's script is to end.
func (q *Queue) Ending(job uint32) int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.ending[job]
}

// Asked is how often a node has asked for a job's pods.
func (q *Queue) Asked(job uint32, node string) int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.asked[place{job, node}]
}

// SetPods has pods of a job be on a node, or none.
func (q *Queue) SetPods(job uint32, node string, pods ...string) {
	q.change(func() {
		if q.pods[place{job, node}] = pods; len(pods) == 0 {
			delete(q.pods, place{job, node})
		}
	})
}

// SetSilent has the controller know no pods for a while.
func (q *Queue) SetSilent(silent bool) { q.change(func() { q.silent = silent }) }

// ErrOrder says that an order was not carried out.
var ErrOrder = errors.New("the order was not carried out")

// Done has an order carried out, and fails where it is not.
func (q *Queue) Done(o wire.Order) (uint32, error) {
	result, err := q.Order(o)
	if err == nil && (result.Refused != "" || result.Unknown != "" || result.None) {
		err = fmt.Errorf("%w: %+v", ErrOrder, result)
	}
	return result.Job, err
}
