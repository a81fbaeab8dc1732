package reconfig

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// busySlurmctld launches jobs for so long, or until they are held.
type busySlurmctld struct {
	slurm.Client
	busy    time.Duration
	began   time.Time
	refuses error
	// lingers is how long it takes to launch what was started before they were held.
	lingers time.Duration
	held    time.Time
	// mute is how long it gives no answer.
	mute     time.Duration
	reserved []string
	// programs is how long its programs take to end once they must, and ended when that began.
	programs time.Duration
	ended    time.Time
	allowed  int
	// settles is how long they must not be ended.
	settles time.Duration
}

func (b *busySlurmctld) Outgoing(context.Context) (slurm.Outgoing, error) {
	if time.Since(b.began) < b.mute {
		return slurm.Outgoing{}, slurm.ErrUnreachable
	}
	if time.Since(b.began) >= b.busy || !b.held.IsZero() && time.Since(b.held) >= b.lingers {
		return slurm.Outgoing{}, nil
	}
	return slurm.Outgoing{Sending: 1}, nil
}

func (b *busySlurmctld) Settled() bool { return time.Since(b.began) >= b.settles }

func (b *busySlurmctld) End() (over bool) {
	if !b.Settled() {
		panic("a job would begin beside its first run")
	}
	if b.ended.IsZero() {
		b.ended = time.Now()
	}
	return time.Since(b.ended) >= b.programs
}

func (b *busySlurmctld) Allow() { b.allowed++ }

func (b *busySlurmctld) Reserve(_ context.Context, name string) error {
	b.reserved = append(b.reserved, "+"+name)
	if b.refuses == nil {
		b.held = time.Now()
	}
	return b.refuses
}

func (b *busySlurmctld) Unreserve(_ context.Context, name string) error {
	b.reserved = append(b.reserved, "-"+name)
	return nil
}

func TestAwaitLaunches(t *testing.T) {
	held := []string{"+slurmlet-reconfigure", "-slurmlet-reconfigure"}
	for name, c := range map[string]struct {
		slurmctld busySlurmctld
		takes     time.Duration
		reserved  []string
		told      int
	}{
		"nothing is launched":             {},
		"launches come to an end":         {slurmctld: busySlurmctld{busy: 2 * time.Second}, takes: 2 * time.Second},
		"there are always some: a pause":  {slurmctld: busySlurmctld{busy: time.Hour, lingers: time.Second}, takes: 4 * time.Second, reserved: held},
		"a node does not answer":          {slurmctld: busySlurmctld{busy: time.Hour, lingers: time.Hour}, takes: 10 * time.Second, reserved: held, told: 1},
		"its programs end":                {slurmctld: busySlurmctld{programs: 2 * time.Second}, takes: 2 * time.Second},
		"its programs do not end":         {slurmctld: busySlurmctld{programs: time.Hour}, takes: 10 * time.Second, reserved: held, told: 1},
		"its programs must not end yet":   {slurmctld: busySlurmctld{settles: 25 * time.Second, programs: 2 * time.Second}, takes: 27 * time.Second},
		"there is no answer for a while":  {slurmctld: busySlurmctld{mute: 40 * time.Second, busy: 43 * time.Second}, takes: 43 * time.Second},
		"there is none at all":            {slurmctld: busySlurmctld{mute: time.Hour}, takes: 121300 * time.Millisecond, told: 1},
		"jobs cannot be kept from coming": {slurmctld: busySlurmctld{busy: time.Hour, refuses: errors.New("no")}, takes: 10 * time.Second, reserved: held[:1], told: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.slurmctld.began = time.Now()
				told := 0
				r := &Reloader{Options: Options{Client: &c.slurmctld, Programs: &c.slurmctld, Log: func(slog.Level, string, ...slog.Attr) { told++ }}}
				again := 0
				r.untilQuiet(t.Context(), conf.SendLimit, true, func() bool { again++; return true })
				assert.Equal(t, c.takes, time.Since(c.slurmctld.began))
				r.releaseJobs()
				r.releaseJobs()
				assert.Equal(t, c.reserved, c.slurmctld.reserved)
				assert.Equal(t, c.told, told)
				assert.Equal(t, 2, c.slurmctld.allowed, "programs may run again")
				if c.takes > 0 && c.told == 0 {
					assert.Equal(t, 1, again, "what took time before is done once more")
				}
			})
		})
	}
}
