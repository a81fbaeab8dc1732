//go:build e2e

package gone

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// cases follow one another in one cluster.
var cases = []struct {
	name string
	play func(*world) error
}{
	{"the controller hears what nodes do", (*world).reports},
	{"idle pods die, and one command deletes their records", (*world).idle},
	{"a busy record stays until its job ends", (*world).busy},
	{"a record with a suspended job stays", (*world).suspended},
	{"machines are gone: jobs are requeued or fail at once", (*world).lost},
	{"a machine is gone, and its job is ending on another one", (*world).wideLost},
	{"slurmctld finds out that a pod is gone, and its job is ending on another one", (*world).wideGone},
	{"a new pod takes the name of a lost one", (*world).moved},
	{"a wrong controller takes no job and no record", (*world).wrong},
}

// atOnce is how soon a lost machine's jobs must be requeued. An idle machine takes half a second, the tests
// share a busy one, and slurmctld itself waits for SlurmdTimeout, ten times as long.
const atOnce = 30 * time.Second

func (w *world) reports() error {
	n := w.Nodes[0]
	is := func(want wire.State) error {
		return w.until(n.Name+" is not told to be "+string(want), func() bool { return w.controller.State(n.Name) == want })
	}
	if err := is(wire.Idle); err != nil {
		return err
	}
	id, err := w.submit(n)
	if err != nil {
		return err
	}
	if err := is(wire.Busy); err != nil {
		return err
	}
	if _, err := w.slurm("scancel", id); err != nil {
		return err
	}
	return is(wire.Idle)
}

func (w *world) idle() error {
	dead := w.Nodes[0:3]
	if _, err := w.slurm("sdiag", "--reset"); err != nil {
		return err
	}
	if err := w.powerOffAll(dead...); err != nil {
		return err
	}
	began := time.Now()
	for _, n := range dead {
		w.controller.Gone(uidOf(n), false)
	}
	if err := w.until("records stay", func() bool {
		return w.record(dead[0]) == "" && w.record(dead[1]) == "" && w.record(dead[2]) == ""
	}); err != nil {
		return err
	}
	fmt.Printf("3 records were gone %.2f s after their pods\n", time.Since(began).Seconds())
	asked, err := w.RPCs()
	if err != nil {
		return err
	}
	if n := asked["REQUEST_DELETE_NODE"]; n > 2 { // the controller may have told of them in two parts
		return fmt.Errorf("slurmctld was asked for %d deletions", n)
	}
	return nil
}

// stays is a record that must not go, until slurmctld has been asked about it several times.
func (w *world) stays(n *native.Node, want string) error {
	if err := w.until("nobody says why the record of "+n.Name+" stays", func() bool {
		s, err := w.AgentStatus()
		return err == nil && s.Records != nil && s.Records.Kept[n.Name] == want
	}); err != nil {
		return err
	}
	before, err := w.AgentStatus()
	if err != nil {
		return err
	}
	return w.until("slurmctld is not asked again", func() bool {
		s, err := w.AgentStatus()
		return err == nil && s.Records.Looked.After(before.Records.Looked.Add(3*time.Second))
	})
}

// busy: the pod was deleted by force, and its machine cannot be reached from Kubernetes.
func (w *world) busy() error {
	n := w.Nodes[nodes-1]
	id, err := w.submit(n)
	if err != nil {
		return err
	}
	w.controller.Gone(uidOf(n), false)
	if err := w.stays(n, "jobs hold the node"); err != nil {
		return err
	}
	if state, record := w.job(id), w.record(n); state != "RUNNING" || !strings.HasPrefix(record, "ALLOCATED") {
		return fmt.Errorf("job %s is %s, and its node %s", id, state, record)
	}
	if err := w.gate.Open(); err != nil {
		return err
	}
	if err := w.until("the record stays after the job's end", func() bool { return w.record(n) == "" }); err != nil {
		return err
	}
	if state := w.job(id); state != "COMPLETED" {
		return fmt.Errorf("job %s is %s", id, state)
	}
	w.gate, err = w.NewGate()
	return err
}

func (w *world) suspended() error {
	n := w.Nodes[nodes-2]
	id, err := w.submit(n)
	if err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "suspend", id); err != nil {
		return err
	}
	w.controller.Gone(uidOf(n), false)
	if err := w.stays(n, "jobs hold the node"); err != nil {
		return err
	}
	if state, record := w.job(id), w.record(n); state != "SUSPENDED" || record == "" {
		return fmt.Errorf("job %s is %s, and its node %q", id, state, record)
	}
	if _, err := w.slurm("scontrol", "resume", id); err != nil {
		return err
	}
	if _, err := w.slurm("scancel", id); err != nil {
		return err
	}
	return w.until("the record stays after the job's end", func() bool { return w.record(n) == "" })
}

func (w *world) lost() error {
	first, second, third := w.Nodes[3], w.Nodes[4], w.Nodes[5]
	requeued, err := w.submit(first)
	if err != nil {
		return err
	}
	fails, err := w.submit(second)
	if err != nil {
		return err
	}
	suspended, err := w.submit(third)
	if err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "update", "jobid="+fails, "requeue=0"); err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "suspend", suspended); err != nil {
		return err
	}
	if err := w.powerOffAll(first, second, third); err != nil {
		return err
	}
	began := time.Now()
	for _, n := range []*native.Node{first, second, third} {
		w.controller.Gone(uidOf(n), true)
	}
	if err := w.until("jobs of lost machines go on", func() bool {
		return w.job(requeued) == "PENDING" && strings.HasPrefix(w.job(fails), "NODE_FAIL") && w.job(suspended) != "SUSPENDED"
	}); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("jobs were requeued or had failed %.2f s after their machines\n", took.Seconds())
	if took > atOnce {
		return fmt.Errorf("jobs were requeued only after %v", took)
	}
	if err := w.until("the failed job has a comment", func() bool { return strings.Contains(w.job(fails), "slurmlet: Kubernetes says") }); err != nil {
		return err
	}
	// The requeued jobs name their nodes.
	if err := w.until("the record of a node goes that a job names", func() bool {
		return strings.HasSuffix(w.record(first), "slurmlet: the pod is gone, and job "+requeued+" names the node") && w.record(second) == ""
	}); err != nil {
		return err
	}
	if _, err := w.slurm("scancel", "--state=PENDING"); err != nil {
		return err
	}
	return w.until("records of lost machines stay", func() bool { return w.record(first) == "" && w.record(third) == "" })
}

// wide: the job ignores SIGTERM, and slurmd kills it after KillWait. slurmctld needs the lost node's record until then: a
// reconfigure would have the job fail.
func (w *world) wideLost() error { return w.wide(w.Nodes[8:10], true) }

// wideGone: SlurmdTimeout is over for the node, which scontrol says here in slurmctld's place.
func (w *world) wideGone() error { return w.wide(w.Nodes[10:12], false) }

func (w *world) wide(pair []*native.Node, isLost bool) error {
	cmd := w.Command("/usr/bin/sbatch", "--parsable", "--requeue", "--nodelist="+pair[0].Name+","+pair[1].Name, "--mem=10", "--output=/dev/null")
	cmd.Stdin = strings.NewReader("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot submit a job: %w", err)
	}
	id := strings.TrimSpace(string(out))
	if err := w.until("job "+id+" does not run", func() bool { return w.job(id) == "RUNNING" }); err != nil {
		return err
	}
	shown, err := w.slurm("scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		return err
	}
	lost := pair[0]
	if strings.Contains(shown, " BatchHost="+lost.Name+" ") {
		lost = pair[1]
	}
	if err := w.powerOffAll(lost); err != nil {
		return err
	}
	w.controller.Gone(uidOf(lost), isLost)
	if !isLost {
		if err := w.stays(lost, "jobs hold the node"); err != nil {
			return err
		}
		if _, err := w.slurm("scontrol", "update", "nodename="+lost.Name, "state=down", "reason=Not responding"); err != nil {
			return err
		}
	}
	if err := w.stays(lost, "jobs that ran there are ending on other nodes"); err != nil {
		return err
	}
	version, err := w.slurm("scontrol", "--version")
	if err != nil {
		return err
	}
	if !strings.Contains(version, " 24.11.") { // its slurmd hangs when it is configured anew while it ends a job, until a probe finds that
		if _, err := w.slurm("scontrol", "reconfigure"); err != nil {
			return err
		}
	}
	if err := w.until("the job is not requeued, or its record is gone", func() bool {
		return w.job(id) == "PENDING" && strings.HasSuffix(w.record(lost), "slurmlet: the pod is gone, and job "+id+" names the node")
	}); err != nil {
		return err
	}
	if _, err := w.slurm("scancel", id); err != nil {
		return err
	}
	return w.until("the record stays after the job's end", func() bool { return w.record(lost) == "" })
}

// moved: a StatefulSet makes a pod of the same name, which waits for a machine. The jobs do not wait for it, and its
// agent takes the record.
func (w *world) moved() error {
	n := w.Nodes[6]
	id, err := w.submit(n)
	if err != nil {
		return err
	}
	if err := w.powerOffAll(n); err != nil {
		return err
	}
	w.controller.Gone(uidOf(n), true)
	if err := w.live(n, "uid-new", false); err != nil {
		return err
	}
	if err := w.until("the job of a lost machine goes on", func() bool { return w.job(id) == "PENDING" }); err != nil {
		return err
	}
	if err := w.until("the node is not DOWN", func() bool {
		record := w.record(n)
		return strings.HasPrefix(record, "DOWN+DRAIN") && strings.HasSuffix(record, "slurmlet: Kubernetes says that the machine is gone")
	}); err != nil {
		return err
	}
	if err := w.live(n, "uid-new", true); err != nil {
		return err
	}
	successor := replacement(n)
	if err := w.Start(successor); err != nil {
		return err
	}
	if err := successor.AwaitReady(limit); err != nil {
		return fmt.Errorf("%w: %s", err, strings.Join(successor.Log(), "\n"))
	}
	if err := w.until("the new node takes no jobs", func() bool {
		record := w.record(n)
		return strings.HasPrefix(record, "IDLE+") && !strings.Contains(record, "DRAIN") || strings.HasPrefix(record, "ALLOCATED+") && !strings.Contains(record, "DRAIN")
	}); err != nil {
		return err
	}
	_, err = w.slurm("scancel", id)
	return err
}

// wrong: the controller tells the end of pods whose agents are connected to slurmctld's agent.
func (w *world) wrong() error {
	busy, idle := w.Nodes[7], w.Nodes[6]
	id, err := w.submit(busy)
	if err != nil {
		return err
	}
	w.controller.Gone(uidOf(busy), true)
	w.controller.Gone("uid-new", true)
	for _, n := range []*native.Node{busy, idle} {
		if err := w.stays(n, "its agent is still connected to slurmctld's agent"); err != nil {
			return err
		}
	}
	if state, record := w.job(id), w.record(busy); state != "RUNNING" || !strings.HasPrefix(record, "ALLOCATED+DYNAMIC_NORM") {
		return fmt.Errorf("job %s is %s, and its node %s", id, state, record)
	}
	if record := w.record(idle); !strings.HasPrefix(record, "IDLE+DYNAMIC_NORM") {
		return fmt.Errorf("the record of %s is %q", idle.Name, record)
	}
	if w.said(`"level":"WARN"`, "still connected") == 0 {
		return errors.New("nobody warns of a wrong controller")
	}
	return nil
}
