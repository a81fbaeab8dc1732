// Package backoff says how long to wait before the next try.
package backoff

import "time"

// Grow doubles from first to last: n is 0 before the second try.
func Grow(first time.Duration, n int, last time.Duration) time.Duration {
	if n > 20 || first<<n > last {
		return last
	}
	return first << n
}

const (
	// FirstTry and LastTry are the pauses between questions that have no answer yet.
	FirstTry = 50 * time.Millisecond
	LastTry  = 5 * time.Second
	// LastQuiet is the pause where nobody waits for the answer.
	LastQuiet = time.Minute
	// FirstPause and LastPause are those between the starts of a process that ends: the
	// first restarts come at once.
	FirstPause = 100 * time.Millisecond
	LastPause  = 30 * time.Second
	// Steady is how long a process must have lived for its end to count as a first failure.
	Steady = time.Minute
)

// Restarts counts the ends of a process in a row.
type Restarts struct{ failures int }

// Pause is how long to wait before the next start of a process that has lived so long.
func (r *Restarts) Pause(uptime time.Duration) time.Duration {
	if uptime >= Steady {
		r.failures = 0
	}
	r.failures++
	return Grow(FirstPause, r.failures-1, LastPause)
}
