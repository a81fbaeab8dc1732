package deadlines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNew(t *testing.T) {
	const ms, day = time.Millisecond, 24 * time.Hour
	for _, c := range []struct {
		grace, lead time.Duration
		want        Deadlines
	}{
		{0, time.Minute, Deadlines{}},
		{-time.Second, 0, Deadlines{}},
		{2 * time.Second, time.Minute, Deadlines{0, 750 * ms, 1000 * ms, 1250 * ms, 1375 * ms, 1500 * ms, 1750 * ms, 1875 * ms}},
		{30 * time.Second, 10 * time.Second, Deadlines{4000 * ms, 14000 * ms, 17750 * ms, 21500 * ms, 23375 * ms, 25250 * ms, 29000 * ms, 29500 * ms}},
		{30 * time.Second, time.Minute, Deadlines{0, 14000 * ms, 17750 * ms, 21500 * ms, 23375 * ms, 25250 * ms, 29000 * ms, 29500 * ms}},
		{10 * time.Minute, time.Minute, Deadlines{
			464 * time.Second, 524 * time.Second, 554 * time.Second, 584 * time.Second, 589 * time.Second, 594 * time.Second, 599 * time.Second, 599500 * ms,
		}},
		{30 * day, 0, Deadlines{
			30*day - 76*time.Second, 30*day - 76*time.Second, 30*day - 46*time.Second, 30*day - 16*time.Second,
			30*day - 11*time.Second, 30*day - 6*time.Second, 30*day - time.Second, 30*day - 500*ms,
		}},
	} {
		assert.Equal(t, c.want, New(c.grace, c.lead), "%v", c.grace)
	}
}

func FuzzNew(f *testing.F) {
	f.Add(int64(30*time.Second), int64(time.Minute))
	f.Fuzz(func(t *testing.T, grace, lead int64) {
		w := New(time.Duration(grace), max(time.Duration(lead), 0))
		before := time.Duration(0)
		for _, at := range []time.Duration{w.Signal, w.Requeue, w.Kill, w.Fail, w.Leave, w.Stop, w.End, w.Exit, max(time.Duration(grace), 0)} {
			require.GreaterOrEqual(t, at, before, "%+v", w)
			before = at
		}
	})
}

func TestDeadlinesWithin(t *testing.T) {
	const s, day = time.Second, 24 * time.Hour
	whole := New(day, 0)
	require.Equal(t, New(30*s, 0), whole.within(0, 30*s, 0), "at SIGTERM")
	hour := whole.within(time.Hour, 30*s, 0)
	require.Equal(t, []time.Duration{time.Hour + 14*s, time.Hour + 29500*time.Millisecond}, []time.Duration{hour.Requeue, hour.Exit}, "an hour later")
	require.Equal(t, hour, hour.within(time.Hour+5*s, 25*s, 0), "the same end, looked at again")
	require.Equal(t, hour, hour.within(time.Hour+5*s, day, 0), "nothing is put off")
	require.Equal(t, time.Minute, whole.within(time.Minute, -s, 0).Exit, "it is over")
}

func FuzzDeadlinesWithin(f *testing.F) {
	f.Add(int64(24*time.Hour), int64(time.Hour), int64(30*time.Second), int64(time.Minute))
	f.Fuzz(func(t *testing.T, grace, elapsed, left, lead int64) {
		const most = int64(1 << 60)
		late := time.Duration(min(max(elapsed, 0), most))
		w := New(time.Duration(grace), time.Duration(min(max(lead, 0), most)))
		n := w.within(late, time.Duration(min(left, most)), time.Duration(min(max(lead, 0), most)))
		before := time.Duration(0)
		for i, at := range []time.Duration{n.Signal, n.Requeue, n.Kill, n.Fail, n.Leave, n.Stop, n.End, n.Exit} {
			require.GreaterOrEqual(t, at, before, "%+v", n)
			require.LessOrEqual(t, at, []time.Duration{w.Signal, w.Requeue, w.Kill, w.Fail, w.Leave, w.Stop, w.End, w.Exit}[i], "nothing is put off")
			before = at
		}
		require.LessOrEqual(t, n.Exit, late+max(time.Duration(left), 0), "it ends in time")
		require.Equal(t, n, n.within(late, time.Duration(min(left, most)), time.Duration(min(max(lead, 0), most))), "once is enough")
	})
}
