package notify

import "time"

// limiter lets a burst of ten through, then one a second: whoever can write to the socket could flood the log otherwise.
type limiter struct {
	full    time.Time // when all of the burst is there again
	refused int
}

const (
	burst = 10
	every = time.Second
)

// allow says whether one more may pass, and how many before it did not.
func (l *limiter) allow(now time.Time) (unreported int, ok bool) {
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) > (burst-1)*every {
		l.refused++
		return 0, false
	}
	l.full = l.full.Add(every)
	unreported, l.refused = l.refused, 0
	return unreported, true
}
