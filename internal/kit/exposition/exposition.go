// Package exposition writes Prometheus' text format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
//
// Prometheus' own libraries judge in tests what it writes. In the agent they would cost a third of
// its size, and the memory of a tree of records for each answer. This package keeps nothing.
package exposition

import (
	"io"
	"strconv"
	"strings"
	"time"
)

// ContentType is the format's.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is a metric's type.
type Kind string

// The kinds that the product has.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
)

// KindOf is a counter for a name that ends in _total, and a gauge for all others.
func KindOf(name string) Kind {
	if strings.HasSuffix(name, "_total") {
		return Counter
	}
	return Gauge
}

// Writer writes metrics. The samples of a metric follow its head.
type Writer struct {
	to  io.Writer
	buf []byte
	err error
}

// enough is how many bytes a Writer collects before it writes them.
const enough = 32 << 10

// NewWriter needs Flush at the end.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Flush writes what is left, and returns the first error.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.to.Write(w.buf)
	}
	w.buf = w.buf[:0]
	return w.err
}

// Head begins a metric. Its help is one line.
func (w *Writer) Head(name, help string, kind Kind) {
	w.buf = append(append(append(append(w.buf, "# HELP "...), name...), ' '), help...)
	w.buf = append(append(append(append(w.buf, "\n# TYPE "...), name...), ' '), kind...)
	w.buf = append(w.buf, '\n')
}

// WriteSample adds one value; labels are from Labels.
func (w *Writer) WriteSample(name, labels string, value float64) {
	w.buf = append(append(append(w.buf, name...), labels...), ' ')
	if whole := int64(value); float64(whole) == value && -1<<53 < whole && whole < 1<<53 {
		w.buf = strconv.AppendInt(w.buf, whole, 10)
	} else {
		w.buf = strconv.AppendFloat(w.buf, value, 'f', -1, 64)
	}
	if w.buf = append(w.buf, '\n'); len(w.buf) >= enough {
		_ = w.Flush() // the last one returns the error
	}
}

// Seconds are since 1970, to the millisecond.
func Seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Labels are a sample's, in braces: names are separated by commas, and values are in their order.
func Labels(names string, values ...string) string {
	if names == "" {
		return ""
	}
	var b strings.Builder
	before := byte('{')
	for i, name := range strings.Split(names, ",") {
		b.WriteByte(before)
		b.WriteString(name)
		b.WriteString(`="`)
		b.WriteString(escapes.Replace(Name(values[i])))
		b.WriteByte('"')
		before = ','
	}
	b.WriteByte('}')
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// MaxLabel is above what a name of Slurm's or of a file's needs, in bytes.
const MaxLabel = 255

// Name is what a label has of a name that people give, which may be of any length, and not UTF-8.
func Name(name string) string {
	name = strings.ToValidUTF8(name, "�")
	return strings.ToValidUTF8(name[:min(len(name), MaxLabel)], "")
}
