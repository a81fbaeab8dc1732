package main

import (
	"maps"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// The records of elastic nodes.
const (
	cloudUp      = `{"name":"n1","state":["IDLE","CLOUD"],` + right + `"reason":""}`
	cloudComing  = `{"name":"n1","state":["IDLE","CLOUD","POWERING_UP","NOT_RESPONDING"],` + right + `"reason":""}`
	cloudOff     = `{"name":"n1","state":["IDLE","CLOUD","POWERING_DOWN"],` + right + `"reason":""}`
	cloudAdmins  = `{"name":"n1","state":["IDLE","CLOUD","DRAIN"],` + right + `"reason":"disk is full"}`
	cloudLarger  = `{"name":"n1","state":["IDLE","CLOUD"],"cpus":8,"effective_cpus":8,"sockets":8,"cores":1,"threads":1,"real_memory":9000,"reason":""}`
	cloudSmaller = `{"name":"n1","state":["IDLE","CLOUD"],"cpus":1,"effective_cpus":1,"sockets":1,"cores":1,"threads":1,"real_memory":200,"reason":""}`

	poweredDown = "update nodename=n1 state=power_down_asap reason=slurmlet: pod is terminating"
	poweredOff  = "update nodename=n1 state=power_down_force reason=slurmlet: pod is terminating"
)

var elasticEnv = []string{"SLURMLET_ELASTIC=yes"}

// elastic is a container of an elastic node, in which alice's job runs where files say so.
func elastic(record string, steps []string, files map[string]string, env ...string) given {
	stage := map[string]string{"node.json": record}
	maps.Copy(stage, files)
	return given{role: "slurmd", env: append(env, elasticEnv...), files: stage, steps: steps}
}

// goesDown in order: slurmctld has suspended the node before slurmd is stopped, and has its record still.
var goesDown = []condition{exits(0), recordIs("POWERING_DOWN"), never(deleted), atMost(sigterm, 1), wrote(sigterm, 1)}

// TestElastic: a node that slurmctld starts and ends.
func TestElastic(t *testing.T) {
	t.Parallel()
	alice, aliceSteps := map[string]string{"jobs/5": alices}, []string{aliceScript}
	both, bothSteps := map[string]string{"jobs/5": alices, "jobs/6": bobs}, []string{aliceScript, bobScript}
	const grace = "SLURMLET_GRACE_PERIOD=" + ample
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "comes up: the record stays as it is",
		given: elastic(cloudComing, nil, nil),
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, never("update"), never(deleted), recordIs(`["IDLE","CLOUD"]`)}},
		},
	}, {
		name:  "of a record that has more than the pod: it is drained, and never deleted",
		given: elastic(cloudLarger, nil, nil),
		phases: []phase{
			{"it is drained, and says why", nil, []condition{
				is(supervisor.Starting, leaving, "the record of the elastic node has more than the pod: CPUEfctv is 8, not 1, RealMemory is 9000, not 300"),
				recordIs("slurmlet: the record of the elastic node has more than the pod"), wrote("state=drain", 1), never(deleted), atMost(newStart, 1), probes(200, 503, 503),
			}},
			{"somebody puts it right", []act{func(c *container) { c.put("node.json", cloudUp) }}, []condition{isReady, never(deleted)}},
		},
	}, {
		name:  "of a record that has less than the pod: it serves, and tells",
		given: elastic(cloudSmaller, nil, nil),
		phases: []phase{
			{"it is Ready", nil, []condition{
				isReady, never("update"), never(deleted), logged(entry{"level": "WARN", "error": "RealMemory is 200, not 300"}),
			}},
			{"the status says so", []act{command(0, "RealMemory is 200, not 300", "status")}, nil},
		},
	}, {
		name:  "idle: slurmctld suspends it, and the record stays",
		given: elastic(cloudUp, nil, nil),
		phases: []phase{
			{"it is Ready", nil, settled},
			{"SIGTERM", term, append(goesDown, calls(3), inOrder(asked, poweredDown, asked, sigterm))},
		},
	}, {
		name:  "suspended by slurmctld: it leaves at once",
		given: elastic(cloudUp, nil, nil),
		phases: []phase{
			{"it is Ready", nil, settled},
			{"SIGTERM", []act{func(c *container) { c.put("node.json", cloudOff) }, mark, signal(unix.SIGTERM)}, append(goesDown, calls(1), never("update"))},
		},
	}, {
		name:  "busy: it is waited for, without a further question",
		given: elastic(cloudUp, aliceSteps, alice),
		phases: []phase{
			{"it is Ready", nil, settled},
			{"SIGTERM", term, []condition{waits, inOrder(asked, poweredDown, asked), recordIs("POWER_DOWN"), probes(200, 503, 200), jobsAre("5 of alice")}},
			{"time goes by", []act{mark, pass(time.Second)}, []condition{waits, calls(0), never(sigterm)}},
			{"the job ends", endJob, append(goesDown, calls(1), atMost("update", 1))},
		},
	}, {
		name:  "cancelled meanwhile",
		given: elastic(cloudUp, aliceSteps, alice),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"the job is over, and its step ends", []act{drop("jobs/5"), pass(50 * time.Millisecond), endStep(aliceScript)}, append(goesDown, atMost("update", 1))},
		},
	}, {
		name:  "drained by an administrator: the reason stays",
		given: elastic(cloudAdmins, aliceSteps, alice),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits, recordIs("disk is full"), wrote("update nodename=n1 state=power_down_asap", 1), never("reason=")}},
			{"the job ends", endJob, goesDown},
		},
	}, {
		name:  "out of time: jobs are requeued, or fail",
		given: elastic(cloudUp, bothSteps, both, grace),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits, never("requeue")}},
			{"the time for jobs is over", nil, []condition{wrote("] requeue incomplete 5", 1), jobIs("5", "PENDING"), never("power_down_force")}},
			{"all of it is", nil, []condition{wrote(poweredOff, 1), jobIs("5", "PENDING"), jobIs("6", "NODE_FAIL"), never(sigterm)}},
			{"slurmd ends the steps", []act{endStep(aliceScript), endStep(bobScript)}, []condition{
				exits(0), never(deleted), never("state=down"), atMost(poweredOff, 1), recordIs("POWERING_DOWN"),
				inOrder(poweredDown, "] requeue", poweredOff, sigterm),
			}},
		},
	}, {
		name:  "while slurmctld is away: nothing counts as done",
		given: elastic(cloudUp, nil, nil),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, choose("down"), signal(unix.SIGTERM)}, []condition{
				is(supervisor.Stopping, lookingAtRecord, "Unable to contact slurm controller"), never("power_down"), never(sigterm),
			}},
			{"slurmctld is back", []act{drop("down")}, goesDown},
		},
	}, {
		name:  "slurmctld does not come back: slurmd is stopped in order",
		given: elastic(cloudUp, aliceSteps, alice, grace),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, choose("down"), signal(unix.SIGTERM)}, []condition{
				exits(75), never("power_down"), never(deleted), wrote(sigterm, 1), logged(entry{"state": "Exited", "reason": "slurmctld may still count on the node"}),
			}},
		},
	}, {
		name:  "slurmctld does not suspend it: the node is drained, and the time ends the wait",
		given: elastic(cloudUp, nil, map[string]string{"unsuspended": ""}, grace),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{
				exits(75), wrote(poweredDown, 1), recordIs("DRAIN"), never(deleted), logged(entry{"state": "Exited", "reason": "slurmctld is about to suspend the node"}),
			}},
		},
	}, {
		name:  "when slurmd is killed during the wait: the next one takes the steps over",
		given: elastic(cloudUp, aliceSteps, alice),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"SIGKILL", []act{remember, signalMain(unix.SIGKILL)}, []condition{waits, restarts(1), wrote(newStart, 2), never(sigterm)}},
			{"the job ends", endJob, goesDown},
		},
	}, {
		name:  "when slurmd hands over during the wait",
		given: elastic(cloudUp, aliceSteps, map[string]string{"jobs/5": alices, "barrier": ""}),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"it hands over", []act{remember, signalMain(unix.SIGHUP)}, []condition{handedOver, waits}},
			{"the job ends", endJob, goesDown},
		},
	}, {
		name:  "before slurmd is READY: jobs wait for the next pod",
		given: elastic(cloudComing, nil, map[string]string{"mute": ""}),
		phases: []phase{
			{"it starts", nil, []condition{is(supervisor.Starting, launching, ""), wrote("start", 1), daemonListens}},
			{"SIGTERM", term, []condition{exits(0), recordIs(`["IDLE","CLOUD"]`), never("update"), never(deleted)}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}
