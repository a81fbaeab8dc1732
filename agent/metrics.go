package agent

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"
)

// metricsType is Prometheus' text format.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// WriteMetrics writes the status for Prometheus, in its text format 0.0.4: GET
// /metrics. Everybody may read it who reaches the port: it has numbers, and none of the
// texts for people.
func (s Status) WriteMetrics(w io.Writer) error {
	var e exposition
	expose(&e, ofAll, &s)
	expose(&e, ofMain, s.Main)
	expose(&e, ofLastError, s.LastError)
	expose(&e, ofKeys, s.Keys)
	expose(&e, ofStopping, s.Stopping)
	if s.Conf != nil {
		expose(&e, ofConf, s.Conf)
		expose(&e, ofReload, s.Conf.Reloads.Last)
		expose(&e, ofRefusal, s.Conf.Refused)
	}
	if s.Role == Slurmd || s.Role == Login {
		expose(&e, ofCopy, &s)
	}
	if s.Node != nil {
		expose(&e, ofNode, s.Node)
		expose(&e, ofSteps, s.Node.Steps)
	}
	if s.Role == Login {
		expose(&e, ofLogin, &s)
	}
	_, err := w.Write(e.Bytes())
	return err
}

// metric is what there is to tell of a T; no sample where it is not known. One whose
// name ends in _total is a counter, all others are gauges.
type metric[T any] struct {
	// name is without "slurmlet_"; labels are separated by commas.
	name, labels, help string
	samples            func(*T) []sample
}

// sample has the labels' values in the order of the metric's labels.
type sample struct {
	value  float64
	labels []string
}

func amount[N int | int64 | uint64 | float64](n N, labels ...string) []sample {
	return []sample{{float64(n), labels}}
}

func whether(holds bool, labels ...string) []sample {
	if holds {
		return amount(1, labels...)
	}
	return amount(0, labels...)
}

func ofEach[T any](all []T, samples func(T) []sample) (found []sample) {
	for _, one := range all {
		found = append(found, samples(one)...)
	}
	return found
}

// moment is in seconds since 1970, to the millisecond; none for the zero time.
func moment(t time.Time) []sample {
	if t.IsZero() {
		return nil
	}
	return amount(float64(t.UnixMilli()) / 1000)
}

// exposition is a text in Prometheus' format
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
type exposition struct{ bytes.Buffer }

// expose adds the metrics of what there is, and none of what is nil.
func expose[T any](e *exposition, metrics []metric[T], of *T) {
	if of == nil {
		return
	}
	for _, m := range metrics {
		samples := m.samples(of)
		if len(samples) > 0 {
			e.head(m.name, m.help)
		}
		for _, s := range samples {
			e.add(m.name, m.labels, s)
		}
	}
}

func (e *exposition) head(name, help string) {
	kind := "gauge"
	if strings.HasSuffix(name, "_total") {
		kind = "counter"
	}
	e.WriteString("# HELP slurmlet_" + name + " " + help + "\n# TYPE slurmlet_" + name + " " + kind + "\n")
}

func (e *exposition) add(name, labels string, s sample) {
	var pairs []string
	for i, label := range strings.FieldsFunc(labels, func(r rune) bool { return r == ',' }) {
		pairs = append(pairs, label+`="`+labelValue(s.labels[i])+`"`)
	}
	e.WriteString("slurmlet_" + name)
	if pairs != nil {
		e.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	e.WriteString(" " + strconv.FormatFloat(s.value, 'f', -1, 64) + "\n")
}

// mostLabel is above what a name of Slurm's or of a file's needs, in bytes.
const mostLabel = 255

// labelValue is a name that people give: of any length, and not always UTF-8.
func labelValue(name string) string {
	name = strings.ToValidUTF8(name, "�")
	name = strings.ToValidUTF8(name[:min(len(name), mostLabel)], "")
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name)
}
