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
	conf string    // wire.Report's Conf
	news chan struct{}
}

// NewReporter makes a Reporter beside the Client whose controller it reports to.
func NewReporter(c *Client) *Reporter {
	return &Reporter{client: c, news: make(chan struct{}, 1)}
}

// confirmation is how long the controller hears nothing at most: one that took over the writing has none
// of the reports, and says so.
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

// Set has all nodes as they are now. It is called after each look at them, also where nothing has changed:
// the controller forgets states that nobody has looked at for minutes.
func (r *Reporter) Set(nodes []wire.NodeReport) {
	want := make(map[string]wire.NodeReport, len(nodes))
	for _, n := range nodes {
		want[n.Name] = n
	}
	r.mu.Lock()
	changed := r.want == nil || !maps.Equal(want, r.want) || time.Since(r.set) >= present // none was sent meanwhile
	r.want, r.set = want, time.Now()
	r.mu.Unlock()
	if changed {
		r.wake()
	}
}

// SetConf has the digest of the directory with slurm.conf.
func (r *Reporter) SetConf(digest string) {
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
	var sent map[string]wire.NodeReport // nil: the controller knows nothing
	var tag, conf string                // of the last report
	confirm := false                    // with a report that says nothing new
	for tries := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.client.newEpoch:
			sent = nil
		case <-time.After(r.untilConfirmation()):
			confirm = sent != nil && r.isPresent()
		case <-r.news:
			select {
			case <-r.client.newEpoch:
				sent = nil
			default:
			}
		}
		pause := leastPause
		report, now := r.difference(sent, conf)
		if report == nil && confirm && r.isPresent() {
			report = &wire.Report{Conf: conf}
		}
		next, err := r.send(ctx, report, tag)
		if err == nil {
			sent, tag, tries, confirm = now, next, 0, false
			if report != nil {
				conf = report.Conf
			}
		} else {
			least, most := leastPause, lastRetry
			refused, is := errors.AsType[*refusal](err)
			switch {
			case is && refused.code == http.StatusMisdirectedRequest:
				least, most = least/5, lastLeaderSearch // the Service leads to another replica soon
			case is && refused.code == http.StatusPreconditionFailed:
				sent, most = nil, lastLeaderSearch // this one writes, and waits for all
			case is && refused.code == http.StatusServiceUnavailable:
				least = max(least, refused.wait) // other reports had the room: it has taken nothing
			default:
				sent = nil // the controller may have taken it, or may be another one
			}
			pause = backoff.Grow(least, tries, most)
			pause = pause/2 + rand.N(pause)
			if is && refused.wait > 0 {
				pause = max(pause, refused.wait) // it will not take the report sooner
			}
			if tries == patience || tries == 0 && is && refused.lasting() {
				r.client.Log(slog.LevelWarn, "cannot report to the controller what the nodes do", slog.String("error", err.Error()))
			}
			tries++
			r.wake()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
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
