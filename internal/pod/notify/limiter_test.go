package notify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLimiter(t *testing.T) {
	var l limiter
	now := time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)
	for _, c := range []struct {
		name       string
		after      time.Duration
		calls      int
		passed     int
		unreported int
	}{
		{"a burst", 0, 15, 10, 0},
		{"too early", 900 * time.Millisecond, 5, 0, 0},
		{"one a second, with the count of those before", 100 * time.Millisecond, 3, 1, 10},
		{"and again", time.Second, 1, 1, 2},
		{"a burst after a rest", time.Minute, 12, 10, 0},
	} {
		now = now.Add(c.after)
		passed, unreported := 0, 0
		for range c.calls {
			n, ok := l.allow(now)
			unreported += n
			if ok {
				passed++
			}
		}
		assert.Equal(t, c.passed, passed, c.name)
		assert.Equal(t, c.unreported, unreported, c.name)
	}
}
