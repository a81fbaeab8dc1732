package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// saves: jobs are requeued, and the record is deleted, before the time is over that was granted. The job's step ends when
// it is requeued: one that does not leaves two seconds of the time for all commands, and a loaded machine needs more.
var (
	requeues = wrote("] requeue incomplete 5", 1)
	saves    = phase{"its step ends", []act{endStep(aliceScript)}, []condition{exits(0), inOrder(terminating, deleted, sigterm), jobIs("5", "PENDING")}}
)

// TestDeadline is a pod that is killed sooner than its grace period says, and was told so.
func TestDeadline(t *testing.T) {
	t.Parallel()
	day := []string{"SLURMLET_GRACE_PERIOD=24h"}
	soon := func() string { return time.Now().Add(30 * time.Second).Format(time.RFC3339) }
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "by a grace period, before SIGTERM",
		given: withJob(day),
		phases: []phase{
			{"it is granted", []act{awaitReady, annotate("slurmlet.dev/grace-period", "30s"), awaitGranted("slurmlet.dev/grace-period")}, nil},
			{"SIGTERM", []act{signal(unix.SIGTERM)}, []condition{requeues}},
			saves,
		},
	}, {
		name:  "by a deadline, on the way down",
		given: withJob(day),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"a deadline that nobody understands", []act{annotate("slurmlet.dev/deadline", "soon")}, []condition{
				waits, logged(entry{"level": "ERROR", "error": `slurmlet.dev/deadline: cannot use "soon": want a time as in 2006-01-02T15:04:05Z`}), never("requeue"),
			}},
			{"one that it does", []act{func(c *container) { annotate("slurmlet.dev/deadline", soon())(c) }}, []condition{
				requeues, logged(entry{"level": "WARN", "msg": "the pod has less time to end than before"}),
			}},
			saves,
		},
	}, {
		name:  "by hand, on the way down",
		given: withJob(day),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"what cannot be meant", []act{orders(1, "2020-01-01T00:00:00Z"), orders(64, "tomorrow"), orders(64), orders(0, "23h")}, []condition{waits, never("requeue")}},
			{"a deadline", []act{orders(0, "30s")}, []condition{requeues, logged(entry{"by": "slurmlet deadline"})}},
			saves,
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}

// awaitGranted: the agent has read the pod's annotations.
func awaitGranted(annotation string) act {
	return func(c *container) {
		c.await(phase{"it has read the annotation", nil, []condition{func(c *container) error {
			if told := c.run(c.t, "status").stdout; !strings.Contains(told, annotation) {
				return fmt.Errorf("the status does not tell of %s: %s", annotation, told)
			}
			return nil
		}}})
	}
}

// orders is "slurmlet deadline", as by kubectl exec.
func orders(code int, args ...string) act {
	return func(c *container) {
		told := c.run(c.t, append([]string{"deadline"}, args...)...)
		require.Equal(c.t, code, told.code, told.stderr)
	}
}
