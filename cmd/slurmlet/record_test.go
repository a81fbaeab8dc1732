package main

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// The node record that slurmctld has when a pod named n1 of 1 CPU, 300 MiB and 100 MiB of disk comes.
const (
	larger         = `{"name":"n1","state":["IDLE","DYNAMIC_NORM"],"cpus":8,"effective_cpus":8,"real_memory":9000}`
	right          = `"cpus":1,"effective_cpus":1,"sockets":1,"cores":1,"threads":1,"real_memory":300,"temporary_disk":100,`
	leftBy         = `{"name":"n1","state":["IDLE","DYNAMIC_NORM","DRAIN"],` + right + `"reason":`
	fits           = `{"name":"n1","state":["IDLE","DYNAMIC_NORM"],` + right + `"reason":""}`
	ourOwn         = leftBy + `"slurmlet: the pod is of another size than the record"}`
	anAdmin        = leftBy + `"disk is full"}`
	invalid        = `{"name":"n1","state":["IDLE","DYNAMIC_NORM","DRAIN","INVALID_REG"],` + right + `"reason":`
	refused        = invalid + `"Low RealMemory (reported:300 < 100.00% of configured:400)"}`
	moved          = invalid + `"CoreSpec differ"}`
	adminsOfLarger = `{"name":"n1","state":["IDLE","DYNAMIC_NORM","DRAIN"],"cpus":8,"effective_cpus":8,"real_memory":9000,"reason":"disk is full"}`

	drained  = "update nodename=n1 state=drain reason=slurmlet: the pod is of another size than the record"
	resumed  = "update nodename=n1 state=resume"
	deleted  = "delete nodename=n1"
	asked    = "--all --nodes=n1 --json"
	sigterm  = "] SIGTERM"
	newStart = "] start uid=0"
)

func record(text string, more ...string) map[string]string {
	files := map[string]string{"node.json": text}
	for _, name := range more {
		files[name] = ""
	}
	return files
}

func TestRecord(t *testing.T) {
	for _, story := range []struct {
		name   string
		files  map[string]string
		phases []phase
	}{{
		name:  "none: slurmd makes one",
		files: nil,
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, never("update"), never(deleted), atMost(newStart, 1)}},
		},
	}, {
		name:  "of another size and idle: it is drained, deleted and made anew",
		files: record(larger),
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, inOrder(newStart, drained, deleted, sigterm, newStart), never(resumed), atMost(newStart, 2)}},
		},
	}, {
		name:  "of another size and busy: it is drained, and nothing else until its jobs have ended",
		files: record(larger, "busy"),
		phases: []phase{
			{"it waits", nil, []condition{
				is(supervisor.Starting, leaving, "jobs run on it"), probes(200, 503, 503),
				wrote(drained, 1), wrote(asked, 3), never(deleted), never(sigterm),
			}},
			{"the jobs end", []act{drop("busy")}, []condition{isReady, inOrder(drained, deleted, sigterm, newStart), atMost(drained, 1)}},
		},
	}, {
		name:  "of another size and drained by an administrator: it is never deleted nor resumed",
		files: record(adminsOfLarger),
		phases: []phase{
			{"it waits and says why", nil, []condition{
				is(supervisor.Starting, leaving, "somebody else has drained the node, which would be lost with the record: disk is full"),
				wrote(asked, 4), never("update"), never(deleted), never(sigterm),
			}},
			{
				"the administrator resumes it",
				[]act{scontrol("update", "nodename=n1", "state=resume")},
				[]condition{isReady, inOrder(drained, deleted, sigterm, newStart)},
			},
		},
	}, {
		name:  "drained by an administrator while the agent waits for its jobs: it is never deleted",
		files: record(larger, "busy"),
		phases: []phase{
			{"it waits", nil, []condition{is(supervisor.Starting, leaving, "jobs run on it"), wrote(drained, 1)}},
			{
				"the administrator gives another reason, and the jobs end",
				[]act{scontrol("update", "nodename=n1", "reason=disk is full"), drop("busy")},
				[]condition{is(supervisor.Starting, leaving, "lost with the record: disk is full"), never(deleted), never(resumed)},
			},
		},
	}, {
		name:  "of the right size, drained by an agent: it is resumed",
		files: record(ourOwn),
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, wrote(resumed, 1), never(deleted), never("state=drain"), atMost(newStart, 1)}},
		},
	}, {
		name:  "of the right size, drained by an administrator: it stays so",
		files: record(anAdmin),
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, never("update"), never(deleted), atMost(newStart, 1)}},
		},
	}, {
		name:  "that slurmctld has made INVALID_REG: it is deleted and made anew",
		files: record(refused),
		phases: []phase{
			{"it is Ready", nil, []condition{
				isReady, inOrder(newStart, deleted, sigterm, newStart), atMost(newStart, 2),
			}},
		},
	}, {
		name:  "that slurmctld has made INVALID_REG because the pod now has other CPUs: it is made anew, too",
		files: record(moved),
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, inOrder(newStart, deleted, sigterm, newStart), atMost(newStart, 2)}},
		},
	}, {
		name:  "not to be had, slurmctld being away: slurmd is left alone",
		files: map[string]string{"down": ""},
		phases: []phase{
			{"it waits and says why", nil, []condition{
				is(supervisor.Starting, confirming, "Unable to contact slurm controller"), probes(200, 503, 503), wrote(asked, 3), never(sigterm),
			}},
			{"slurmctld is back", []act{drop("down")}, []condition{isReady, restarts(0), atMost(newStart, 1)}},
		},
	}, {
		name:  "of another size at a hand-over: it is drained first",
		files: nil,
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{
				"the record changes",
				[]act{func(c *container) { c.put("node.json", larger) }, signal(unix.SIGHUP)},
				[]condition{isReady, inOrder("hands over", drained, deleted, sigterm, newStart)},
			},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, given{role: "slurmd", files: story.files}, story.phases...)
		})
	}
}
