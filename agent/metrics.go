package agent

import (
	"io"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
)

// WriteMetrics writes the status for Prometheus, in its text format 0.0.4: GET
// /metrics. Everybody may read it who reaches the port: it has numbers, and none of the
// texts for people.
func (s Status) WriteMetrics(w io.Writer) error {
	e := exposition.NewWriter(w)
	expose(e, ofAll, &s)
	expose(e, ofMain, s.Main)
	expose(e, ofLastError, s.LastError)
	expose(e, ofKeys, s.Keys)
	exposition.ExposeAll(e, sack.Metrics, s.Sack)
	expose(e, ofPeers, s.Peers)
	expose(e, ofStopping, s.Stopping)
	if s.Role == Slurmd || s.Role == Login {
		expose(e, ofCopy, &s)
	}
	s.Status.WriteMetrics(e, s.Conf)
	s.Node.WriteMetrics(e)
	if s.Role == Login {
		expose(e, ofLogin, &s)
	}
	return e.Flush()
}

// metric is what there is to tell of a T; no sample where it is not known. One whose
// name ends in _total is a counter, all others are gauges.
type metric[T any] struct {
	// name is without "slurmlet_"; labels are separated by commas.
	name, labels, help string
	samples            func(*T) []sample
}

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

// expose adds the metrics of what there is, and none of what is nil.
func expose[T any](w *exposition.Writer, metrics []metric[T], of *T) {
	if of == nil {
		return
	}
	for _, m := range metrics {
		exposition.Expose(w, exposition.Metric[T]{Name: "slurmlet_" + m.name, Labels: m.labels, Help: m.help, Samples: m.samples}, of)
	}
}
