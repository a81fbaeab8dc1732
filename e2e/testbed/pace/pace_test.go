package pace

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPause(t *testing.T) {
	for _, c := range []struct{ waited, took, want time.Duration }{
		{0, 0, least},
		{80 * time.Millisecond, 10 * time.Millisecond, least},
		{4 * time.Second, 10 * time.Millisecond, 500 * time.Millisecond},
		{4 * time.Second, 250 * time.Millisecond, 750 * time.Millisecond},
		{time.Minute, 10 * time.Millisecond, most},
		{time.Minute, 10 * time.Second, most},
	} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			assert.Equal(t, c.want, Pause(now.Add(-c.waited), now.Add(-c.took)), "%v, %v", c.waited, c.took)
		})
	}
}
