package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

const (
	lookingAtRecord = "looking at the node record"
	finishing       = "waiting for the node's jobs to end"
	stopping        = "waiting for the daemon to stop"

	terminating = "update nodename=n1 state=drain reason=slurmlet: pod is terminating"
	setDown     = "update nodename=n1 state=down reason=slurmlet: pod is terminating"

	// The jobs that run here; the one of alice may be requeued.
	alices = `{"job_id":5,"user_name":"alice","job_state":["RUNNING"],"batch_flag":true,"requeue":true,"end_time":{"set":true,"number":1900000000}}`
	bobs   = `{"job_id":6,"user_name":"bob","job_state":["RUNNING"],"batch_flag":true,"requeue":false,"end_time":{"set":true,"number":1900000000}}`

	// Their batch scripts, whose step has a number that is above all others.
	aliceScript, bobScript = "5.4294967291", "6.4294967291"
)

// withJob is a container in which alice's job runs; files are further ones of the stage.
func withJob(env []string, files ...string) given {
	stage := map[string]string{"jobs/5": alices}
	for _, name := range files {
		stage[name] = ""
	}
	return given{role: "slurmd", env: env, files: stage, steps: []string{aliceScript}}
}

// settled: nothing will be asked any more that SIGTERM does not lead to.
var settled = []condition{isReady, wrote("show config", 1)}

var (
	term = []act{mark, signal(unix.SIGTERM)}
	// waits for a job of which a step runs here: nothing is asked meanwhile.
	waits = is(supervisor.Stopping, finishing, "jobs run on it")
	// onceMore: the first SIGINT has come, so a second is not one with it.
	onceMore = logged(entry{"level": "INFO", "msg": "SIGINT received: a second one stops the daemon at once, whatever runs"})
	// endJob: slurmctld knows of it when the step ends.
	endJob = []act{mark, drop("jobs/5"), endStep(aliceScript)}
	// leaves in order: the record is deleted, and stays so, before slurmd is stopped.
	leaves = []condition{exits(0), inOrder(named, deleted, named, asked, sigterm), recordIs(""), atMost(sigterm, 1)}
	// named is the question who names the node, which is one of two.
	named = "--format=%i|%A|%n|%x|%N|%t"
	// remains is the reason of a record that stays.
	remains = "reason=slurmlet: the pod is gone, and "
)

// TestWayDown is what SIGTERM does to a node that is Ready, while there is time.
func TestWayDown(t *testing.T) {
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "idle: the record is deleted, and nothing is asked before",
		given: given{role: "slurmd"},
		phases: []phase{
			{"it is Ready", nil, settled},
			{"SIGTERM", term, append(leaves, calls(6), never("update"))},
		},
	}, {
		name:  "busy: it is drained and waited for, without a further question",
		given: withJob(nil),
		phases: []phase{
			{"it is Ready", nil, settled},
			{"SIGTERM", term, []condition{waits, inOrder(asked, terminating, asked), calls(5), probes(200, 503, 200)}},
			{"time goes by", []act{mark, pass(time.Second)}, []condition{waits, calls(0), never(sigterm), never(deleted)}},
			{"the job ends", endJob, append(leaves, calls(7), atMost(terminating, 1))},
		},
	}, {
		name: "busy with two jobs: the end of the first is not that of the last",
		given: given{
			role: "slurmd", files: map[string]string{"jobs/5": alices, "jobs/6": bobs}, steps: []string{aliceScript, bobScript, "6.0"},
		},
		phases: []phase{
			{"it is Ready", nil, settled},
			{"SIGTERM", term, []condition{waits, jobsAre("5 of alice", "6 of bob")}},
			{"one job ends", endJob, []condition{waits, jobsAre("6 of bob"), calls(2)}},
			{"the other's step ends", []act{mark, endStep("6.0")}, []condition{waits, calls(2)}},
			{"and the job", []act{drop("jobs/6"), endStep(bobScript)}, leaves},
		},
	}, {
		name:  "busy, and the job's end takes a moment longer than its step's",
		given: withJob(nil),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"the step ends", []act{endStep(aliceScript)}, []condition{is(supervisor.Stopping, finishing, "jobs hold it, without a step here"), never(deleted)}},
			{"and the job", []act{drop("jobs/5")}, leaves},
		},
	}, {
		name:  "busy by an allocation without a step here",
		given: given{role: "slurmd", files: map[string]string{"jobs/6": bobs}},
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{
				is(supervisor.Stopping, finishing, "jobs hold it, without a step here"), inOrder(deleted, asked, terminating), jobsAre("6 of bob"), atMost(deleted, 1), never(sigterm),
			}},
			{"it ends", []act{drop("jobs/6")}, leaves},
		},
	}, {
		name:  "drained by an administrator: the reason stays",
		given: given{role: "slurmd", files: map[string]string{"node.json": anAdmin, "jobs/5": alices}, steps: []string{aliceScript}},
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits, never("update"), recordIs("disk is full")}},
			{"the job ends", endJob, append(leaves, never("update"))},
		},
	}, {
		name:  "held by a reservation: the record stays, DOWN",
		given: given{role: "slurmd", files: map[string]string{"reserved": ""}},
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{
				exits(0), inOrder(deleted, "state=drain "+remains+"a reservation has the node", "state=down "+remains, sigterm), atMost(deleted, 1),
				recordIs("DOWN"), logged(entry{"state": "Exited", "reason": "the record stays: a reservation has the node"}),
			}},
		},
	}, {
		name:  "a pending job names it: the record stays, DOWN",
		given: given{role: "slurmd", files: map[string]string{"named": ""}},
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{
				exits(0), never(deleted), inOrder("state=drain "+remains+"job 7 names the node", named, "state=down "+remains+"job 7 names the node", sigterm),
				recordIs("DOWN"), logged(entry{"state": "Exited", "reason": "the record stays: job 7 names the node"}),
			}},
		},
	}, {
		name:  "a pending job names it, and its last job ends: nothing is set DOWN before",
		given: withJob(nil),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, choose("named"), signal(unix.SIGTERM)}, []condition{waits, never("state=down")}},
			{"the job ends", endJob, []condition{exits(0), never(deleted), inOrder("state=down "+remains, sigterm), recordIs("DOWN")}},
		},
	}, {
		name:  "while slurmctld is away: nothing is drained or deleted before it is back",
		given: given{role: "slurmd"},
		phases: []phase{
			{"SIGTERM", []act{awaitReady, choose("down"), mark, signal(unix.SIGTERM)}, []condition{
				is(supervisor.Stopping, lookingAtRecord, "Unable to contact slurm controller"), wrote(asked, 4), recordIs(`"n1"`), atMost(deleted, 1), never(sigterm),
			}},
			{"slurmctld is back", []act{drop("down")}, leaves},
		},
	}, {
		name:  "when slurmctld goes away during the wait",
		given: withJob(nil),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"the job ends", append([]act{choose("down")}, endJob...), []condition{
				is(supervisor.Stopping, lookingAtRecord, "Unable to contact slurm controller"), never(deleted), never(sigterm),
			}},
			{"slurmctld is back", []act{drop("down")}, leaves},
		},
	}, {
		name:  "when slurmd is killed during the wait: the next one takes the steps over",
		given: withJob(nil),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"SIGKILL", []act{remember, signalMain(unix.SIGKILL)}, []condition{waits, restarts(1), wrote(newStart, 2), never(sigterm), never(deleted)}},
			{"the job ends", endJob, leaves},
		},
	}, {
		name:  "when slurmd hands over during the wait",
		given: withJob(nil, "barrier"),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"it hands over", []act{remember, signalMain(unix.SIGHUP)}, []condition{handedOver, waits, atMost(newStart, 2)}},
			{"the job ends", endJob, append(leaves, atMost(newStart, 2))},
		},
	}, {
		name:  "when the agent is told to reload during the wait",
		given: withJob(nil),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"SIGHUP", []act{signal(unix.SIGHUP), pass(100 * time.Millisecond)}, []condition{waits, never("hands over")}},
			{"the job ends", endJob, leaves},
		},
	}, {
		name:  "before slurmctld knows slurmd: it is not taken for gone",
		given: given{role: "slurmd", files: map[string]string{"late": ""}},
		phases: []phase{
			{"it has said READY", nil, []condition{is(supervisor.Starting, confirming, "no record of this node yet"), daemonListens}},
			{"SIGTERM, and it registers in a moment", []act{signal(unix.SIGTERM), pass(20 * time.Millisecond), drop("late")}, leaves},
		},
	}, {
		name:  "with further signals: only SIGINT twice ends it at once",
		given: withJob(nil),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"SIGTERM again, and SIGINT", []act{mark, signal(unix.SIGTERM), signal(unix.SIGINT), pass(300 * time.Millisecond)}, []condition{waits, onceMore, calls(0), never(sigterm)}},
			{"SIGQUIT", []act{signal(unix.SIGQUIT)}, []condition{
				waits, never(sigterm), logged(entry{"level": "INFO", "msg": "SIGQUIT received", "status": "Stopping", "goroutines": "agent.(*Agent).own"}),
			}},
			{"SIGINT again", []act{signal(unix.SIGINT)}, []condition{
				exits(75), wrote(sigterm, 1), never(deleted), recordIs("pod is terminating"), logged(entry{"level": "WARN", "state": "Stopping", "reason": "SIGINT received twice"}),
			}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}

// ample is a grace period of which each part is seconds: a machine that is busy elsewhere takes one for a command.
const ample = "80s"

// TestGrace is what SIGTERM does to a node whose jobs do not end in time.
func TestGrace(t *testing.T) {
	t.Parallel()
	grace := []string{"SLURMLET_GRACE_PERIOD=" + ample} // jobs until 44 s, the node is DOWN at 64 s, slurmd is stopped at 74 s
	both := map[string]string{"jobs/5": alices, "jobs/6": bobs}
	const comment = "slurmlet: the pod of n1 was terminated, and the job may not be requeued"
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "jobs are requeued or fail, and the record is deleted",
		given: given{role: "slurmd", env: grace, files: both, steps: []string{aliceScript, bobScript}},
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits, never("requeue")}},
			{"the time for jobs is over", nil, []condition{
				wrote("] requeue incomplete 5", 1), wrote("update jobid=6 admincomment="+comment, 1), jobIs("5", "PENDING"), jobIs("6", comment),
				is(supervisor.Stopping, finishing, "jobs are being ended"), never("state=down"),
				logged(entry{"level": "WARN", "msg": "requeueing job 5", "user": "alice"}),
				logged(entry{"level": "ERROR", "msg": "job 6 may not be requeued: it will fail", "user": "bob"}),
			}},
			{"all of it is", nil, append(leaves,
				inOrder(terminating, "admincomment=", setDown, deleted, sigterm), jobIs("5", "PENDING"), jobIs("6", "NODE_FAIL"),
				atMost("] requeue", 1), atMost("admincomment=", 1), atMost(setDown, 1),
			)},
		},
	}, {
		name:  "a job that is requeued and ends in time: the node is not set DOWN",
		given: withJob(grace),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"it is requeued", nil, []condition{wrote("] requeue incomplete 5", 1), jobIs("5", "PENDING")}},
			{"and ends", []act{endStep(aliceScript)}, append(leaves, never("state=down"), never("admincomment"), jobIs("5", "PENDING"))},
		},
	}, {
		name:  "jobs are signalled before, once, and the batch script alone",
		given: withJob([]string{"SLURMLET_JOB_SIGNAL=B:USR1@40", "SLURMLET_GRACE_PERIOD=" + ample}), // signalled at 4 s, requeued at 44 s
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits, never("scancel")}},
			{"it is signalled", nil, []condition{wrote("] --verbose --signal=USR1 --batch 5", 1), never("requeue"), logged(entry{"msg": "signalled job 5", "signal": "USR1"})}},
			{"and ends by itself", endJob, append(leaves, atMost("scancel", 1), never("requeue"))},
		},
	}, {
		name:  "jobs are signalled when slurmctld is back",
		given: withJob([]string{"SLURMLET_JOB_SIGNAL=usr2"}),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, choose("down"), signal(unix.SIGTERM)}, []condition{
				is(supervisor.Stopping, lookingAtRecord, "Unable to contact"), logged(entry{"level": "WARN", "msg": "cannot signal the jobs yet"}), never("scancel"),
			}},
			{"slurmctld is back", []act{drop("down")}, []condition{waits, wrote("] --verbose --signal=USR2 5", 1)}},
			{"it ends", endJob, append(leaves, atMost("scancel", 1))},
		},
	}, {
		name:  "slurmctld does not come back: nothing counts as done, and slurmd is stopped in order",
		given: withJob(grace),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, choose("down"), signal(unix.SIGTERM)}, []condition{
				exits(75), wrote(asked, 4), never(deleted), never("update"), never("requeue"), wrote(sigterm, 1), recordIs(`"n1"`),
				logged(entry{"source": "slurmd", "msg": "shutdown completing"}),
				logged(entry{"level": "WARN", "state": "Exited", "reason": "the time is over, and the node record may still be there: "}),
				logged(entry{"state": "Exited", "reason": "Unable to contact slurm controller"}),
			}},
		},
	}, {
		name:  "slurmctld comes back when jobs should have been requeued",
		given: withJob(grace),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"slurmctld goes", []act{choose("down")}, []condition{is(supervisor.Stopping, lookingAtRecord, "Unable to contact"), never("requeue")}},
			{"and is back", []act{drop("down")}, append(leaves, inOrder("] requeue incomplete 5", setDown, deleted, sigterm))},
		},
	}, {
		name:  "slurmd does not come up again: the agent ends in time",
		given: withJob(grace),
		phases: []phase{
			{"SIGTERM", []act{awaitReady, signal(unix.SIGTERM)}, []condition{waits}},
			{"slurmd is killed", []act{choose("exit-at-start"), signalMain(unix.SIGKILL)}, []condition{
				exits(75), never(deleted), logged(entry{"state": "Exited", "reason": "the time is over"}), logged(entry{"state": "Exited", "reason": "jobs 5 of alice"}),
			}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, story.given, story.phases...)
		})
	}
}

// awaitReady: SIGTERM comes only then.
func awaitReady(c *container) { c.await(phase{"it is Ready", nil, settled}) }

// jobsAre those that the status tells on the way down.
func jobsAre(want ...string) condition {
	return func(c *container) error {
		s, err := c.status()
		if err != nil || s.Stopping == nil {
			return fmt.Errorf("want jobs on the way down, have %+v, %w", s.Stopping, err)
		}
		var have []string
		for _, j := range s.Stopping.Jobs {
			have = append(have, j.ID+" of "+j.User)
		}
		if !slices.Equal(want, have) {
			return fmt.Errorf("want jobs %q, have %q", want, have)
		}
		return nil
	}
}

// TestStatusOfTheWayDown: people and programs are told what is waited for, and until when.
func TestStatusOfTheWayDown(t *testing.T) {
	t.Parallel()
	files := map[string]string{"jobs/5": alices, "jobs/6": bobs}
	c := start(t, given{role: "slurmd", env: []string{"SLURMLET_GRACE_PERIOD=10m"}, files: maps.Clone(files), steps: []string{aliceScript, bobScript}})
	awaitReady(c)
	require.NotContains(t, c.run(t, "status").stdout, "Waiting")
	signal(unix.SIGTERM)(c)
	c.await(phase{"it waits", nil, []condition{waits}})

	told := c.run(t, "status", "-o", "json")
	require.Equal(t, 75, told.code, told.stderr)
	var s agent.Status
	require.NoError(t, json.Unmarshal([]byte(told.stdout), &s))
	require.NotNil(t, s.Stopping)
	require.Equal(t, 524*time.Second, s.Stopping.JobsUntil.Sub(s.Stopping.Since))
	require.Equal(t, 599500*time.Millisecond, s.Stopping.Until.Sub(s.Stopping.Since))
	end := time.Unix(1900000000, 0)
	for i, want := range []agent.JobStatus{{ID: "5", User: "alice", State: "RUNNING", Requeue: true}, {ID: "6", User: "bob", State: "RUNNING"}} {
		have := s.Stopping.Jobs[i]
		require.True(t, end.Equal(have.End), have)
		have.End = want.End
		require.Equal(t, want, have)
	}

	text := c.run(t, "status")
	require.Equal(t, 75, text.code)
	at := func(t time.Time) string { return t.Format(time.RFC3339) }
	for _, line := range []string{
		"State +Stopping, " + finishing + " since ",
		fmt.Sprintf("Waiting +since %s, for jobs until %s, at most until %s", at(s.Stopping.Since), at(*s.Stopping.JobsUntil), at(s.Stopping.Until)),
		fmt.Sprintf("Job +5 of alice, RUNNING, its time limit ends %s; will be requeued when the wait is over", at(end)),
		fmt.Sprintf("Job +6 of bob, RUNNING, its time limit ends %s; may not be requeued when the wait is over", at(end)),
	} {
		require.Regexp(t, "(?m)^"+strings.ReplaceAll(line, "+0", `\+0`), text.stdout)
	}
}
