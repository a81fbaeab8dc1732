package agent

import (
	"io"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/login/gateway"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
)

// WriteMetrics writes the status for Prometheus, in its text format 0.0.4: GET
// /metrics. Everybody may read it who reaches the port: it has numbers, and none of the
// texts for people.
func (s Status) WriteMetrics(w io.Writer) error {
	e := exposition.NewWriter(w)
	exposition.ExposeAll(e, ofAll, &s)
	exposition.ExposeAll(e, ofSlurm, s.Release)
	exposition.ExposeAll(e, ofMain, s.Main)
	exposition.ExposeAll(e, ofLastError, s.LastError)
	exposition.ExposeAll(e, ofKeys, s.Keys)
	exposition.ExposeAll(e, sack.Metrics, s.Sack)
	exposition.ExposeAll(e, ofPeers, s.Peers)
	exposition.ExposeAll(e, ofLeavers, s.Leavers)
	exposition.ExposeAll(e, ofStopping, s.Stopping)
	if s.Role == Slurmd || s.Role == Login {
		exposition.ExposeAll(e, ofCopy, &s)
	}
	s.Status.WriteMetrics(e, s.Conf)
	s.Node.WriteMetrics(e)
	if s.Role == Login {
		exposition.ExposeAll(e, ofLogin, &s)
		exposition.ExposeAll(e, gateway.Metrics, s.Gateway)
	}
	return e.Flush()
}

// metric is one that a T has.
type metric[T any] exposition.Metric[T]

// sample has the labels' values in the order of the metric's labels.
type sample = exposition.Sample

func amount[N int | int64 | uint64 | float64](n N, labels ...string) []sample {
	return exposition.Amount(n, labels...)
}

func whether(holds bool, labels ...string) []sample { return exposition.Whether(holds, labels...) }

func ofEach[T any](all []T, samples func(T) []sample) []sample {
	return exposition.OfEach(all, samples)
}

// moment is in seconds since 1970, to the millisecond; none for the zero time.
func moment(t time.Time) []sample { return exposition.Moment(t) }
