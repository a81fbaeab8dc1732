package main

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

func TestSlurmctld(t *testing.T) {
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "hands over twenty times, and stops in order",
		given: given{role: "slurmctld"},
		phases: slices.Concat(
			[]phase{{"it is Ready", nil, []condition{isReady, probes(200, 200, 200)}}},
			handOvers(20),
			[]phase{
				{"nothing is left of the former ones", nil, []condition{processes(2)}},
				{"SIGTERM ends it", []act{signal(unix.SIGTERM)}, []condition{exits(0), wrote("SIGTERM", 1)}},
			},
		),
	}, {
		name:  "hands over with barriers, of which none is left waiting",
		given: given{role: "slurmctld", files: map[string]string{"barrier": ""}},
		phases: slices.Concat(
			[]phase{{"it is Ready", nil, []condition{isReady}}},
			handOvers(20),
			[]phase{{"every barrier was released", nil, []condition{wrote("barrier was released", 21), never("was not released")}}},
		),
	}, {
		name:  "hands over as an ordinary process that adopts its orphans",
		given: given{role: "slurmctld", subreaper: true},
		phases: slices.Concat(
			[]phase{{"it is Ready", nil, []condition{isReady}}},
			handOvers(3),
			[]phase{{"SIGTERM ends it", []act{signal(unix.SIGTERM)}, []condition{exits(0), wrote("SIGTERM", 1)}}},
		),
	}, {
		name:  "runs as SlurmUser, who may notify",
		given: given{role: "slurmctld", env: []string{"SLURMLET_SLURM_USER=nobody"}},
		phases: slices.Concat(
			[]phase{{"it is Ready", nil, []condition{isReady, wrote("start uid=65534", 1)}}},
			handOvers(1),
		),
	}, {
		name:  "is not Ready before its READY, nor before it answers",
		given: given{role: "slurmctld", files: map[string]string{"mute": "", "down": ""}},
		phases: []phase{
			{"it has not said READY", nil, []condition{is(supervisor.Starting, launching, ""), probes(200, 503, 503), never("ping"), daemonListens}},
			{
				"it says READY, but does not answer",
				[]act{drop("mute"), signalMain(unix.SIGHUP)},
				[]condition{is(supervisor.Starting, confirming, "Unable to contact slurm controller"), probes(200, 503, 503)},
			},
			{"it answers", []act{drop("down")}, []condition{isReady, probes(200, 200, 200)}},
		},
	}, {
		name:  "goes on when a reconfigure fails",
		given: given{role: "slurmctld"},
		phases: slices.Concat(
			[]phase{
				{"it is Ready", nil, []condition{isReady}},
				{"it cannot hand over", []act{remember, choose("exit-at-start"), signal(unix.SIGHUP)}, []condition{
					isReady, stays, processes(2), probes(200, 200, 200),
					logged(entry{"source": "slurmctld", "level": "ERROR", "msg": "Resuming operation, reconfigure failed."}),
				}},
				{"what was wrong is repaired", []act{drop("exit-at-start")}, nil},
			},
			handOvers(1),
		),
	}, {
		name:  "logs what it likes, whatever the agent's level is",
		given: given{role: "slurmctld", env: []string{"SLURMLET_LOG_LEVEL=error"}},
		phases: []phase{{"it is Ready", nil, []condition{
			isReady, logged(entry{"source": "slurmctld", "level": "INFO"}), notLogged(entry{"source": "slurmlet"}),
		}}},
	}, {
		name:  "is killed again and again, and the container with it",
		given: given{role: "slurmctld"},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"SIGKILL ends it, and it starts again", []act{signalMain(unix.SIGKILL)}, []condition{restarts(1), isReady, logged(entry{"source": "slurmlet", "state": "Starting", "reason": "killed by SIGKILL"})}},
			{"twice", []act{signalMain(unix.SIGKILL)}, []condition{restarts(2), isReady}},
			{"three times", []act{signalMain(unix.SIGKILL)}, []condition{restarts(3), isReady}},
			{"four times", []act{signalMain(unix.SIGKILL)}, []condition{restarts(4), isReady}},
			{"five times", []act{signalMain(unix.SIGKILL)}, []condition{restarts(5), isReady}},
			{"the sixth time is the last", []act{signalMain(unix.SIGKILL)}, []condition{
				exits(137), logged(entry{"source": "slurmlet", "state": "Exited", "reason": "killed by SIGKILL"}),
			}},
		},
	}, {
		name:  "ends at its start, and its last words are the reason",
		given: given{role: "slurmctld", files: map[string]string{"exit-at-start": ""}},
		phases: []phase{{"it has ended", nil, []condition{
			exits(1),
			logged(entry{"source": "slurmctld", "level": "ERROR+4", "msg": "cannot read the configuration"}),
			logged(entry{"source": "slurmlet", "state": "Exited", "reason": "exit code 1: cannot read the configuration"}),
		}}},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}

// handOvers are reconfigures, each as "kill -HUP 1" asks for it.
func handOvers(n int) []phase {
	one := phase{"it has handed over", []act{remember, signal(unix.SIGHUP)}, []condition{handedOver, isReady}}
	return slices.Repeat([]phase{one}, n)
}
