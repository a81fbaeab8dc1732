package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

const byHand = "update nodename=n1 state=drain reason=slurmlet drain: "

// TestDrain is about the commands "slurmlet drain" and "slurmlet resume".
func TestDrain(t *testing.T) {
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "drained and resumed by hand",
		given: withJob(nil),
		phases: []phase{
			{"drain, with jobs on the node", []act{awaitReady, command(0, "the node is drained: the disk is slow\n", "drain", "-reason", "the disk is slow")}, []condition{
				wrote(byHand+"the disk is slow", 1), recordIs("slurmlet drain: the disk is slow"), isReady, probes(200, 200, 200),
			}},
			{"another reason", []act{command(0, "", "drain")}, []condition{recordIs("slurmlet drain: by hand")}},
			{"a reload does not lift it", []act{remember, signal(unix.SIGHUP)}, []condition{handedOver, isReady, recordIs("slurmlet drain: by hand"), never(resumed)}},
			{"resume", []act{command(0, "the node is resumed\n", "resume")}, []condition{wrote(resumed, 1), recordIs("slurmlet: the node takes jobs again")}},
			{"resume when nothing is drained", []act{command(0, "", "resume")}, []condition{atMost(resumed, 1)}},
		},
	}, {
		name:  "drained by an administrator: nothing is done",
		given: given{role: "slurmd", files: record(anAdmin)},
		phases: []phase{
			{"drain", []act{awaitReady, command(1, "somebody else has drained the node, and that stays: disk is full", "drain")}, []condition{recordIs("disk is full")}},
			{"with -wait", []act{command(1, "disk is full", "drain", "-wait")}, nil},
			{"resume", []act{command(1, `somebody else has drained the node, and not by "slurmlet drain": disk is full`, "resume")}, []condition{
				recordIs("disk is full"), never("update"),
			}},
		},
	}, {
		name:  "drained by the agent, because the pod was resized",
		given: given{role: "slurmd", files: record(larger, "busy")},
		phases: []phase{
			{"it waits for jobs", nil, []condition{wrote(drained, 1)}},
			{"resume", []act{command(1, "slurmlet: the pod is of another size", "resume")}, []condition{never(resumed)}},
			{"drain", []act{command(1, "slurmlet: the pod is of another size", "drain")}, []condition{never(byHand)}},
		},
	}, {
		name:  "drained by hand, and terminated: the reason stays, and the drain cannot be lifted any more",
		given: withJob(nil),
		phases: []phase{
			{"drain", []act{awaitReady, command(0, "", "drain")}, []condition{recordIs("slurmlet drain: by hand")}},
			{"SIGTERM", term, []condition{waits, recordIs("slurmlet drain: by hand"), never(terminating)}},
			{"resume", []act{command(1, "the pod is terminating", "resume")}, []condition{never(resumed), waits}},
			{"the job ends", endJob, leaves},
		},
	}, {
		name:  "slurmctld is away",
		given: given{role: "slurmd"},
		phases: []phase{
			{"drain", []act{awaitReady, choose("down"), command(1, "Unable to contact slurm controller", "drain", "-wait")}, []condition{never("update")}},
			{"resume", []act{command(1, "Unable to contact slurm controller", "resume")}, []condition{never("update")}},
		},
	}, {
		name:  "before there is a record",
		given: given{role: "slurmd", noSlurmctld: true},
		phases: []phase{
			{"drain", []act{command(1, "slurmctld has no record of this node", "drain")}, nil},
			{"resume", []act{command(1, "slurmctld has no record of this node", "resume")}, nil},
		},
	}, {
		name:  "slurmctld's container is no node",
		given: given{role: "slurmctld"},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"drain", []act{command(64, "this container is no node", "drain")}, nil},
			{"resume", []act{command(64, "this container is no node", "resume")}, []condition{never("update"), isReady}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			if story.given.noSlurmctld {
				story.phases = append([]phase{{"it waits", nil, []condition{is(supervisor.Starting, reaching, "connection refused")}}}, story.phases...)
			}
			play(t, story.given, story.phases...)
		})
	}
}

// TestDrainWaits: it returns when the last job has ended, asks nothing before, and shows what it waits for by not returning.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	c := start(t, withJob(nil))
	awaitReady(c)
	ended := make(chan outcome, 1)
	wait := c.launch(t, "drain", "-wait", "-reason", "a new image")
	go func() { ended <- wait() }()
	c.await(phase{"the node is drained", nil, []condition{follows(byHand+"a new image", asked)}})
	mark(c)
	pass(time.Second)(c)
	c.await(phase{"nothing is asked", nil, []condition{calls(0), isReady}})
	require.Empty(t, ended)

	endStep(aliceScript)(c)
	c.await(phase{"its job is looked at", nil, []condition{since(asked)}})
	require.Empty(t, ended, "the step has ended, and not its job")
	drop("jobs/5")(c)
	select {
	case have := <-ended:
		require.Equal(t, 0, have.code, have)
	case <-time.After(limit):
		t.Fatal("drain -wait does not return")
	}
	require.NoError(t, isReady(c))
	require.NoError(t, recordIs("a new image")(c))
}

// TestDrainIsGivenUp: whoever waits may stop to do so, and the drain stays; so it does when the container ends.
func TestDrainIsGivenUp(t *testing.T) {
	t.Parallel()
	c := start(t, withJob(nil))
	awaitReady(c)
	wait := c.launch(t, "drain", "-wait")
	c.await(phase{"the node is drained", nil, []condition{wrote(byHand, 1), wrote(asked, 3)}})
	signal(unix.SIGTERM)(c)
	c.await(phase{"SIGTERM", nil, []condition{waits}})
	signal(unix.SIGINT)(c)
	c.await(phase{"SIGINT", nil, []condition{onceMore}}) // two that are pending are one
	signal(unix.SIGINT)(c)
	c.await(phase{"SIGINT twice", nil, []condition{exits(75)}})
	have := wait()
	require.NotEqual(t, 0, have.code, "jobs are still on it")
	require.NotEmpty(t, have.stderr)
}

// TestPortTakesNoCommands: strangers reach it.
func TestPortTakesNoCommands(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, given{role: "slurmd", env: []string{"SLURMLET_LISTEN=" + port}})
	awaitReady(c)
	for _, path := range []string{"/drain", "/drain?reason=x&wait=1", "/resume", "/status"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			request, err := http.NewRequestWithContext(t.Context(), method, "http://"+port+path, nil)
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, response.StatusCode, "%s %s", method, path)
		}
	}
	require.NoError(t, c.check([]condition{never("update"), isReady}))
}
