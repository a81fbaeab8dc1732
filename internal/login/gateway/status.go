package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Status is what "slurmlet status" shows of a gateway.
type Status struct {
	Users    []string `json:"users"`
	LeastUID int      `json:"min_uid"`
	// Connected says whether the controller has taken the last report, and Since since when. Fault is why it has not.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Fault     string    `json:"fault,omitempty"`
	// Jobs are those of groups that slurmctld has, States how many are in which state, and Waiting why how many of them wait.
	Jobs    int            `json:"jobs"`
	States  map[string]int `json:"states,omitempty"`
	Waiting map[string]int `json:"waiting,omitempty"`
	// Asked is when slurmctld has told of all of them last. Silent is why it has not told lately.
	Asked  time.Time `json:"asked,omitzero"`
	Silent string    `json:"silent,omitempty"`
	// Ordered is when the controller has answered a report last: it does within half a minute, also where it has no order.
	Ordered time.Time `json:"ordered,omitzero"`
	// Done, Refused and Unknown count orders by what has become of them.
	Done    map[wire.OrderKind]int `json:"done,omitempty"`
	Refused int                    `json:"refused,omitempty"`
	Unknown int                    `json:"unknown,omitempty"`
	// LastRefused is why an order was refused last.
	LastRefused string `json:"last_refused,omitempty"`
}

// kinds lists the kinds of orders.
var kinds = []wire.OrderKind{wire.Submit, wire.Find, wire.Look, wire.Cancel, wire.Finish}

func (s *Status) count(kind wire.OrderKind, r wire.OrderResult) {
	switch {
	case r.Refused != "":
		s.Refused++
		s.LastRefused = r.Refused
	case r.Unknown != "":
		s.Unknown++
	default:
		done := map[wire.OrderKind]int{}
		for _, one := range kinds {
			done[one] = s.Done[one]
		}
		done[kind]++
		s.Done = done
	}
}

// Status is the present one, nil of a nil Gateway.
func (g *Gateway) Status() *Status {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	return &s
}

// Rows are for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	state := "waits for the controller"
	if s.Connected {
		state = "connected since " + s.Since.Format(time.RFC3339)
	}
	if !s.Ordered.IsZero() {
		state += ", which answered last at " + s.Ordered.Format(time.RFC3339)
	}
	row("Gateway", "%s; users %s from uid %d; %d jobs of Kubernetes' pods", state, strings.Join(s.Users, ", "), s.LeastUID, s.Jobs)
	if s.Jobs > 0 {
		row("Queue", "%s%s; slurmctld told of all at %s", amounts(s.States), within(s.Waiting), s.Asked.Format(time.RFC3339))
	}
	var counts []string
	for _, kind := range kinds {
		if n := s.Done[kind]; n > 0 {
			counts = append(counts, fmt.Sprintf("%s %d", kind, n))
		}
	}
	if len(counts)+s.Refused+s.Unknown > 0 {
		row("Orders", "%s; refused %d, unknown %d", strings.Join(counts, ", "), s.Refused, s.Unknown)
	}
	if s.Fault != "" && !s.Connected {
		row("Fault", "the controller does not take the gateway's reports: %s", s.Fault)
	}
	if s.Silent != "" {
		row("Fault", "the gateway does not know of jobs: %s", s.Silent)
	}
	if s.LastRefused != "" {
		row("Refused last", "%s", s.LastRefused)
	}
}

// amounts are "3 PENDING, 1 RUNNING", the most first.
func amounts(of map[string]int) string {
	words := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(of[b]-of[a], cmp.Compare(a, b)) })
	for i, word := range words {
		words[i] = fmt.Sprintf("%d %s", of[word], word)
	}
	return strings.Join(words, ", ")
}

// within is why jobs wait, in parentheses.
func within(waiting map[string]int) string {
	if len(waiting) == 0 {
		return ""
	}
	return " (waiting: " + amounts(waiting) + ")"
}

// Metrics are those of a gateway. docs/reference/metrics-list.md lists them all.
var Metrics = []exposition.Metric[Status]{
	{
		Name: "gateway_connected", Help: "1 while slurmlet's controller takes the gateway's reports",
		Samples: func(s *Status) []exposition.Sample { return exposition.Whether(s.Connected) },
	},
	{
		Name: "gateway_jobs", Help: "Jobs of groups of Kubernetes' pods that slurmctld has",
		Samples: func(s *Status) []exposition.Sample { return exposition.Amount(s.Jobs) },
	},
	{
		Name: "gateway_orders_total", Labels: "kind", Help: "Orders of slurmlet's controller that were carried out, by kind",
		Samples: func(s *Status) []exposition.Sample {
			return exposition.OfEach(kinds, func(kind wire.OrderKind) []exposition.Sample {
				return exposition.Amount(s.Done[kind], string(kind))
			})
		},
	},
	{
		Name: "gateway_orders_refused_total", Help: "Orders that the gateway or Slurm has refused; the status has the last reason",
		Samples: func(s *Status) []exposition.Sample { return exposition.Amount(s.Refused) },
	},
	{
		Name: "gateway_orders_unknown_total", Help: "Orders of which nobody knows what has become of them",
		Samples: func(s *Status) []exposition.Sample { return exposition.Amount(s.Unknown) },
	},
}
