package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Reporter reports to the controller what slurmctld's nodes do: all of them to a controller that is new, and
// then those that have changed.
type Reporter struct {
	// Failing takes what keeps the pods of elastic nodes from starting, whole each time. It runs on Run's
	// goroutine, and never if the controller makes no pods. It is set before Run; nil: nobody asks.
	Failing func(wire.Failing)

	client *Client
	// soon is Run's: the controller waits for pods.
	soon bool

	mu   sync.Mutex
	want map[string]wire.NodeReport
	set  time.Time // of want
	// at is when slurmctld was asked for want, and counts are its nodes by state.
	at     time.Time
	counts map[wire.State]int
	conf   string // wire.Report's Conf
	news   chan struct{}
}

// NewReporter makes a Reporter that has nothing to report. A nil Reporter is one where nobody wants reports.
func NewReporter() *Reporter { return &Reporter{news: make(chan struct{}, 1)} }

// Follow gives it the Client whose controller it reports to, before Run.
func (r *Reporter) Follow(c *Client) { r.client = c }

// confirmation is how long the controller hears nothing at most: a replica that has just become the leader has none of the
// reports, and says so in its answer.
const confirmation = time.Minute

// soonConfirmation is the time while pods start: what keeps them from it comes with the answer.
const soonConfirmation = 5 * time.Second

// mostAnswer bounds an answer: 10,000 pods that all fail in ways of their own take 3 MiB.
const mostAnswer = 8 << 20

// lastLeaderSearch bounds the pauses of the search for the replica that writes. After a leader's death there is none
// for some 15 s, and the next one waits for the report.
const lastLeaderSearch = 2 * time.Second

// leastPause is the pause between two reports: nodes that change together cost one.
const leastPause = 500 * time.Millisecond

// present is how old the nodes' states may be that are confirmed.
const present = 2 * confirmation

// isPresent: somebody has looked at the nodes lately.
func (r *Reporter) isPresent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.set) < present
}

// Set has all nodes as they were when slurmctld was asked for them, unless a later look was set already. It is called
// after each look, also where nothing has changed: the controller forgets states that nobody has looked at for minutes.
func (r *Reporter) Set(nodes []wire.NodeReport, at time.Time) {
	if r == nil {
		return
	}
	want, counts := make(map[string]wire.NodeReport, len(nodes)), map[wire.State]int{}
	for _, n := range nodes {
		want[n.Name] = n
		counts[n.State]++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Before(r.at) {
		return
	}
	changed := r.want == nil || !maps.Equal(want, r.want) || time.Since(r.set) >= present // none was sent meanwhile
	r.want, r.set, r.at, r.counts = want, time.Now(), at, counts
	if changed {
		r.wake()
	}
}

// Counts are the nodes that were set last, by their states, and when slurmctld was asked for them; zero for never. Nobody
// may change them.
func (r *Reporter) Counts() (counts map[wire.State]int, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts, r.at
}

// SetConf has the digest of the directory with slurm.conf.
func (r *Reporter) SetConf(digest string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	changed := r.conf != digest
	r.conf = digest
	r.mu.Unlock()
	if changed {
		r.wake()
	}
}

func (r *Reporter) wake() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	var said said
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.client.newEpoch:
			said.nodes = nil
		case <-time.After(r.untilConfirmation()):
			said.confirm = said.nodes != nil && r.isPresent()
		case <-r.news:
			select {
			case <-r.client.newEpoch:
				said.nodes = nil
			default:
			}
		}
		pause := leastPause
		report, now := r.difference(said.nodes, said.conf)
		if report == nil && said.confirm && r.isPresent() {
			report = &wire.Report{Conf: said.conf}
		}
		if tag, err := r.send(ctx, report, said.tag); err != nil {
			pause = r.retryAfter(&said, err)
			r.wake()
		} else {
			said.nodes, said.tag, said.tries, said.confirm = now, tag, 0, false
			if report != nil {
				said.conf = report.Conf
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// said is what the controller has taken.
type said struct {
	nodes map[string]wire.NodeReport // nil: the controller knows nothing
	// tag and conf are the last report's.
	tag, conf string
	// confirm asks for a report that says nothing new.
	confirm bool
	// tries counts the reports that have failed since.
	tries int
}

// retryAfter is how long to wait after a report that the controller has not taken. It forgets what the controller may not
// have.
func (r *Reporter) retryAfter(s *said, err error) time.Duration {
	least, most := leastPause, lastRetry
	refused, is := errors.AsType[*refusal](err)
	switch {
	case is && refused.code == http.StatusMisdirectedRequest:
		least, most = least/5, lastLeaderSearch // the Service leads to another replica soon
	case is && refused.code == http.StatusPreconditionFailed:
		s.nodes, most = nil, lastLeaderSearch // this one writes, and waits for all
	case is && refused.code == http.StatusServiceUnavailable:
		least = max(least, refused.wait) // other reports had the room: it has taken nothing
	default:
		s.nodes = nil // the controller may have taken it, or may be another one
	}
	pause := backoff.Grow(least, s.tries, most)
	pause = pause/2 + rand.N(pause)
	if is && refused.wait > 0 {
		pause = max(pause, refused.wait) // it will not take the report sooner
	}
	if s.tries == patience || s.tries == 0 && is && refused.lasting() {
		r.client.Log(slog.LevelWarn, "cannot report to the controller what the nodes do", slog.String("error", err.Error()))
	}
	s.tries++
	return pause
}

// untilConfirmation is how long a report without news waits.
func (r *Reporter) untilConfirmation() time.Duration {
	if r.soon {
		return soonConfirmation
	}
	return confirmation
}

// difference is what the controller does not know. It is nil before Set, where there is nothing to report, and where nobody
// has looked at the nodes lately: the controller would take old states for new ones.
func (r *Reporter) difference(sent map[string]wire.NodeReport, conf string) (*wire.Report, map[string]wire.NodeReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want == nil || time.Since(r.set) >= present || sent != nil && conf == r.conf && maps.Equal(sent, r.want) {
		return nil, sent
	}
	report := wire.Report{Whole: sent == nil, Conf: r.conf}
	for name, n := range r.want {
		if before, known := sent[name]; !known || before != n {
			report.Nodes = append(report.Nodes, n)
		}
	}
	for name := range sent {
		if _, there := r.want[name]; !there {
			report.Nodes = append(report.Nodes, wire.NodeReport{Name: name, State: wire.Absent})
		}
	}
	slices.SortFunc(report.Nodes, func(a, b wire.NodeReport) int { return strings.Compare(a.Name, b.Name) })
	return &report, r.want
}

// send returns the report's ETag.
func (r *Reporter) send(ctx context.Context, report *wire.Report, tag string) (string, error) {
	if report == nil {
		return tag, nil
	}
	body, err := json.Marshal(report)
	if err != nil {
		return "", err
	}
	q := request{method: http.MethodPost, path: "/v1/nodes", body: body}
	if !report.Whole {
		q.match = tag
	}
	conn, answer, err := r.client.ask(ctx, q)
	if err != nil {
		return "", err
	}
	defer conn.Close() // the answer says all
	if err := r.take(conn, answer); err != nil {
		r.client.Log(slog.LevelWarn, "cannot read what the controller says of pods that do not start", slog.String("error", err.Error()))
	}
	return answer.header.Get("ETag"), nil
}

// take reads an Answer, if there is one.
func (r *Reporter) take(conn net.Conn, a *answer) error {
	r.soon = false
	if a.length == 0 {
		return nil
	}
	if a.length < 0 || a.length > mostAnswer {
		return fmt.Errorf("an answer has %d bytes, and 1 to %d are allowed", a.length, mostAnswer)
	}
	if err := conn.SetReadDeadline(time.Now().Add(timeToConnect)); err != nil {
		return err
	}
	text := make([]byte, a.length)
	if _, err := io.ReadFull(io.MultiReader(a.rest, conn), text); err != nil {
		return err
	}
	var said wire.Answer
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	r.soon = said.Soon
	if r.Failing != nil {
		r.Failing(said.Failing)
	}
	return nil
}
