package exposition

import "time"

// Metric is a metric that a T has, with no sample where it is not known. One whose
// name ends in _total is a counter, all others are gauges.
type Metric[T any] struct {
	// Name is without "slurmlet_", Labels are separated by commas, and Help is one line.
	Name, Labels, Help string
	Samples            func(*T) []Sample
}

// Sample has the labels' values in the order of the metric's labels.
type Sample struct {
	Value  float64
	Labels []string
}

// Amount is one sample.
func Amount[N int | int64 | uint64 | float64](n N, labels ...string) []Sample {
	return []Sample{{float64(n), labels}}
}

// Whether is 1 for what holds, and 0 for what does not.
func Whether(holds bool, labels ...string) []Sample {
	if holds {
		return Amount(1, labels...)
	}
	return Amount(0, labels...)
}

// OfEach joins the samples of several things.
func OfEach[T any](all []T, samples func(T) []Sample) (found []Sample) {
	for _, one := range all {
		found = append(found, samples(one)...)
	}
	return found
}

// Moment is in seconds since 1970, to the millisecond. The zero time has no sample.
func Moment(t time.Time) []Sample {
	if t.IsZero() {
		return nil
	}
	return Amount(Seconds(t))
}

// prefix begins the names of all metrics.
const prefix = "slurmlet_"

// Expose adds a metric, and nothing of one without samples.
func Expose[T any](w *Writer, m Metric[T], of *T) {
	name, samples := prefix+m.Name, m.Samples(of)
	if len(samples) > 0 {
		w.Head(name, m.Help, KindOf(name))
	}
	for _, s := range samples {
		w.WriteSample(name, Labels(m.Labels, s.Labels...), s.Value)
	}
}

// ExposeAll adds the metrics of what there is, and none of what is nil. A package's tables may have a type of its own,
// whose rows need no names of fields.
func ExposeAll[T any, M ~struct {
	Name, Labels, Help string
	Samples            func(*T) []Sample
}](w *Writer, metrics []M, of *T,
) {
	if of == nil {
		return
	}
	for _, m := range metrics {
		Expose(w, Metric[T](m), of)
	}
}
