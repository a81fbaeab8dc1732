package main

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// TestStop sends SIGTERM in every state. The grace period is 30 s where nothing else is said: who is killed at its end comes too
// late for the phases' limit.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "slurmctld, before its READY",
		given: given{role: "slurmctld", files: map[string]string{"mute": ""}},
		phases: []phase{
			{"it starts", nil, []condition{is(supervisor.Starting, launching, ""), wrote("start", 1), daemonListens}},
			{"SIGTERM", term, []condition{exits(0), wrote(sigterm, 1)}},
		},
	}, {
		name:  "slurmctld, before it answers",
		given: given{role: "slurmctld", files: map[string]string{"down": ""}},
		phases: []phase{
			{"it does not answer", nil, []condition{is(supervisor.Starting, confirming, "Unable to contact")}},
			{"SIGTERM", term, []condition{exits(0), wrote(sigterm, 1)}},
		},
	}, {
		name:  "slurmd, before slurmctld is there",
		given: given{role: "slurmd", noSlurmctld: true},
		phases: []phase{
			{"it waits", nil, []condition{is(supervisor.Starting, reaching, "connection refused")}},
			{"SIGTERM", term, []condition{exits(0)}},
		},
	}, {
		name:  "slurmd, before its READY",
		given: given{role: "slurmd", files: map[string]string{"mute": ""}},
		phases: []phase{
			{"it starts", nil, []condition{is(supervisor.Starting, launching, ""), wrote("start", 1), daemonListens}},
			{"SIGTERM", term, []condition{exits(0), wrote(sigterm, 1)}},
		},
	}, {
		name:  "slurmd, before it catches signals",
		given: given{role: "slurmd", files: map[string]string{"mute": "", "young": ""}},
		phases: []phase{
			{"it starts", nil, []condition{is(supervisor.Starting, launching, ""), wrote("start", 1)}},
			{"SIGTERM", term, []condition{exits(0)}},
		},
	}, {
		name:  "slurmd, Ready",
		given: given{role: "slurmd"},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"SIGTERM", term, []condition{exits(0), wrote(sigterm, 1), logged(entry{"source": "slurmd", "msg": "shutdown completing"})}},
		},
	}, {
		name:  "slurmd, Ready, by Ctrl-C",
		given: given{role: "slurmd"},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"SIGINT", []act{signal(unix.SIGINT)}, []condition{exits(0), logged(entry{"state": "Stopping", "reason": "SIGINT received"})}},
		},
	}, {
		name:  "slurmd, during a hand-over: the successor is stopped too",
		given: given{role: "slurmd", files: map[string]string{"hold": ""}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"it hands over", []act{remember, signal(unix.SIGHUP)}, []condition{wrote("hands over", 1), wrote(newStart, 2)}},
			{"SIGTERM", term, []condition{is(supervisor.Stopping, stopping, "SIGTERM received"), probes(200, 503, 200)}},
			{"the hand-over goes on", []act{drop("hold")}, []condition{exits(0), wrote(sigterm, 1), wrote(deleted, 1), recordIs("")}},
		},
	}, {
		name:  "slurmd, after a hand-over that hung: the successor is known",
		given: given{role: "slurmd", files: map[string]string{"hang": ""}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"it hands over", []act{remember, signal(unix.SIGHUP)}, []condition{isReady, handedOver, logged(entry{"level": "WARN", "msg": "slurmd's hand-over hung"})}},
			{"SIGTERM", term, []condition{exits(0), wrote(sigterm, 1), wrote(deleted, 1), recordIs("")}},
		},
	}, {
		name:  "slurmd, while a hand-over hangs, and its successor hands over too: the last one is known",
		given: given{role: "slurmd", files: map[string]string{"hang-once": ""}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"it hands over", []act{remember, signal(unix.SIGHUP)}, []condition{wrote(newStart, 2)}},
			{"the successor hands over", []act{signalYoungest(unix.SIGHUP)}, []condition{wrote(newStart, 3)}},
			{"the last one is the main process", nil, []condition{logged(entry{"level": "WARN", "msg": "slurmd's hand-over hung"}), isReady, handedOver, youngestIsMain, atMost(newStart, 3)}},
			{"SIGTERM", term, []condition{exits(0), wrote(sigterm, 1), wrote(deleted, 1), recordIs("")}},
		},
	}, {
		name:  "slurmd, while it is paused",
		given: given{role: "slurmd", files: map[string]string{"exit-at-start": ""}},
		phases: []phase{
			{"it is paused", nil, []condition{isPaused(4)}},
			{"SIGTERM", term, []condition{exits(0)}},
		},
	}, {
		name:  "slurmd, while jobs hold an old record",
		given: given{role: "slurmd", files: record(larger, "busy")},
		phases: []phase{
			{"it waits", nil, []condition{is(supervisor.Starting, leaving, "jobs run on it")}},
			{"SIGTERM", term, []condition{is(supervisor.Stopping, finishing, "jobs hold it"), never(sigterm), never(deleted), never(terminating)}},
			{"they end", []act{drop("busy")}, leaves},
		},
	}, {
		name:  "a second SIGTERM shortens nothing",
		given: given{role: "slurmd", files: map[string]string{"hold-stop": ""}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"SIGTERM", term, []condition{is(supervisor.Stopping, stopping, "SIGTERM received"), wrote(sigterm, 1)}},
			{"again", []act{signal(unix.SIGTERM), signal(unix.SIGINT)}, []condition{is(supervisor.Stopping, stopping, "SIGTERM received"), wrote(sigterm, 1)}},
			{"slurmd ends when it likes", []act{drop("hold-stop")}, []condition{exits(0), atMost(sigterm, 1)}},
		},
	}, {
		name:  "a slurmd that ignores SIGTERM is killed before the grace period ends",
		given: given{role: "slurmd", env: []string{"SLURMLET_GRACE_PERIOD=10s"}, files: map[string]string{"stubborn": ""}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"SIGTERM", term, []condition{exits(137), wrote("ignored SIGTERM", 1), logged(entry{"reason": "did not stop in time and was killed"})}},
		},
	}, {
		name:  "so is a slurmctld, and what it has handed over to",
		given: given{role: "slurmctld", env: []string{"SLURMLET_GRACE_PERIOD=2s"}, files: map[string]string{"stubborn": ""}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"it hands over", []act{remember, signal(unix.SIGHUP)}, []condition{handedOver, isReady}},
			{"SIGTERM", term, []condition{exits(137), wrote("ignored SIGTERM", 1)}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}

// daemonListens: it can be sent signals from now on.
func daemonListens(c *container) error { return logged(entry{"msg": "this is an error of"})(c) }
