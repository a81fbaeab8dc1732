package peerserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Queue takes what is said of Kubernetes' pods in Slurm's queue (wire.GatewayReport). An error is ErrAway, ErrNotAllowed,
// or of ctx.
type Queue interface {
	// Gateway takes a report, and waits for orders until ctx ends, or some 20 s.
	Gateway(ctx context.Context, id Identity, report wire.GatewayReport) (wire.GatewayOrders, error)
	Started(id Identity, started wire.Started) error
	// JobPods waits for a while for pods to go. No pods and no error say that none is there.
	JobPods(ctx context.Context, id Identity, job uint32, node string) ([]string, error)
}

// ErrAway says that this replica does not know enough to answer now.
var ErrAway = errors.New("this replica does not know all pods yet")

const (
	// timeToHold bounds a request that waits for something to say.
	timeToHold = 40 * time.Second
	// mostWaiting bounds the requests of one pod that wait, and mostWaitingAll those of all.
	mostWaiting, mostWaitingAll = 32, 16_384
	// mostStarted bounds the body of a Started.
	mostStarted = 1 << 10
)

// waiting counts requests that wait.
type waiting struct {
	mu   sync.Mutex
	pods map[string]int // by UID
	all  int
}

func (w *waiting) enter(uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[string]int{}
	}
	if w.pods[uid] >= mostWaiting || w.all >= mostWaitingAll {
		return false
	}
	w.pods[uid]++
	w.all++
	return true
}

func (w *waiting) leave(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.pods[uid]--; w.pods[uid] == 0 {
		delete(w.pods, uid)
	}
}

// ofQueue is what serves a request about pods in Slurm's queue; nil if it is none.
func (s *Server) ofQueue(r *http.Request) func(http.ResponseWriter, *http.Request, Identity) {
	if s.Queue == nil {
		return nil
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/gateway":
		return s.queued(s.gateway, func(id Identity) bool { return id.Role == role.Login && id.Gateway })
	case "POST /v1/jobs/started":
		return s.queued(s.started, func(id Identity) bool { return id.Role == role.Slurmd })
	case "GET /v1/jobs/pods":
		return s.queued(s.jobPods, func(id Identity) bool { return id.Role == role.Slurmd })
	}
	return nil
}

// queued serves those who may ask, at the replica that writes.
func (s *Server) queued(serve func(http.ResponseWriter, *http.Request, Identity) error, may func(Identity) bool) func(http.ResponseWriter, *http.Request, Identity) {
	return func(w http.ResponseWriter, r *http.Request, id Identity) {
		switch {
		case !may(id):
			s.refuse(w, http.StatusForbidden)
			return
		case s.Leads != nil && !s.Leads():
			s.refuse(w, http.StatusMisdirectedRequest)
			return
		case !s.waiting.enter(id.UID):
			s.refuse(w, http.StatusTooManyRequests)
			return
		}
		defer s.waiting.leave(id.UID)
		err := serve(w, r, id)
		why, is := errors.AsType[*NotTaken](err)
		switch {
		case err == nil:
		case is:
			http.Error(w, why.Note, why.Code)
		case errors.Is(err, ErrNotAllowed):
			s.refuse(w, http.StatusForbidden)
		default:
			s.refuse(w, http.StatusServiceUnavailable)
		}
	}
}

// hold gives a request more time than others have.
func hold(w http.ResponseWriter) error {
	c, until := http.NewResponseController(w), time.Now().Add(timeToHold)
	return errors.Join(c.SetReadDeadline(until), c.SetWriteDeadline(until))
}

func (s *Server) gateway(w http.ResponseWriter, r *http.Request, id Identity) error {
	report, err := s.gatewayReport(r, id)
	if err != nil {
		return err
	}
	if err := hold(w); err != nil {
		return err
	}
	orders, err := s.Queue.Gateway(r.Context(), id, report)
	if err != nil {
		return err
	}
	return tellJSON(w, orders)
}

// gatewayReport reads a report within the room that reports of the cluster have.
func (s *Server) gatewayReport(r *http.Request, id Identity) (report wire.GatewayReport, err error) {
	conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
	d := &delivery{id: id, conn: conn, size: int(r.ContentLength)}
	out, err := s.intake.admit(d)
	for _, one := range out {
		s.count.crowded.Add(1)
		if one.conn != nil {
			go reset(one.conn)
		}
	}
	if err != nil {
		return report, err
	}
	defer s.intake.leave(d)
	body := make([]byte, d.size)
	if _, err := io.ReadFull(r.Body, body); err != nil || !s.intake.read(d) {
		return report, &NotTaken{Code: http.StatusBadRequest, Note: "the report has not come whole"}
	}
	if json.Unmarshal(body, &report) != nil || report.Gateway == "" || len(report.Gateway) > mostDigest {
		return report, &NotTaken{Code: http.StatusBadRequest, Note: "the report is none of a gateway"}
	}
	return report, nil
}

func (s *Server) started(w http.ResponseWriter, r *http.Request, id Identity) error {
	var started wire.Started
	body, err := io.ReadAll(io.LimitReader(r.Body, mostStarted))
	if err != nil || json.Unmarshal(body, &started) != nil || started.Job == 0 {
		return &NotTaken{Code: http.StatusBadRequest, Note: "the body names no job"}
	}
	if err := s.Queue.Started(id, started); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) jobPods(w http.ResponseWriter, r *http.Request, id Identity) error {
	q := r.URL.Query()
	var job uint64
	var err error
	if text := q.Get("job"); text != "" {
		job, err = strconv.ParseUint(text, 10, 32)
	}
	node := q.Get("node")
	if err != nil || node == "" || len(node) > mostNodeName {
		return &NotTaken{Code: http.StatusBadRequest, Note: "want a node, and a job's number or none"}
	}
	if err := hold(w); err != nil {
		return err
	}
	pods, err := s.Queue.JobPods(r.Context(), id, uint32(job), node)
	switch {
	case err != nil:
		return err
	case len(pods) == 0:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return tellJSON(w, wire.JobPods{Pods: pods})
}

func tellJSON(w http.ResponseWriter, answer any) error {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(answer); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text.Bytes()) // the agent may have gone
	return nil
}
