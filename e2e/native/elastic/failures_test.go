//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// failuresConf: a pod that finds no machine is given up 30 s before ResumeTimeout. 24.11 has a job that was requeued wait for as long
// as its credential is valid.
const failuresConf = `SlurmctldParameters=enable_configless
AuthInfo=use_client_ids,cred_expire=10
ResumeTimeout=50
SchedulerParameters=sched_interval=3,bf_interval=3
NodeSet=f Feature=f
PartitionName=f Nodes=f SuspendTime=4
`

var failuresSets = map[string]string{
	"f": `{"nodes":"f-[0-13]","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["f"]}`,
	"h": `{"nodes":"h-[0-1]","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["f","h"]}`,
	"i": `{"nodes":"i-[0-1]","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["f","i"]}`,
}

var failuresSteps = []step{
	{"failures of single pods", (*world).single},
	{"nothing is left", (*world).nothingLeft},
}

// ofOne are failures of one node each, which happen at the same time.
var ofOne = []struct {
	name string
	play func(w *world, node string) error
}{
	{"a pod is lost, and its job is requeued", (*world).lost},
	{"a pod is lost, and its job may not be requeued", (*world).lostForGood},
	{"a pod is deleted", (*world).deleted},
	{"slurmd dies", (*world).slurmdDies},
	{"a job is cancelled while its node starts", (*world).cancelled},
	{"a node is wanted again while its pod ends", (*world).wantedAgain},
	{"the maker of pods is killed between the call and the pod", (*world).awayBeforePod},
	{"the maker of pods is killed between the pod and idle", (*world).awayBeforeIdle},
	{"the maker of pods is killed during a suspend", (*world).awayDuringSuspend},
	{"the maker of pods is away for longer than ResumeTimeout", (*world).awayTooLong},
	{"a node is wanted again, and the maker of pods has missed that it was not", (*world).awayBetween},
	{"a node is wanted again at once while its pod ends", (*world).wantedAtOnce},
	{"an administrator sets a node DOWN that has not started", (*world).downBeforePod},
	{"a pod never starts", func(w *world, _ string) error { return w.neverStarts() }},
	{"a pod cannot be made", func(w *world, _ string) error { return w.cannotBeMade() }},
}

// uid is the UID of a node's pod; empty for none.
func (w *world) uid(node string) string { return w.maker.UIDs()[node] }

// successor waits for a pod of the same name, which is another.
func (w *world) successor(node, of string) error {
	return w.until(node+" has no other pod than "+of, func() bool { uid := w.uid(node); return uid != "" && uid != of })
}

// restarts is how often a job was requeued.
func (w *world) restarts(id string) string {
	out, err := w.slurm("scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		return err.Error()
	}
	_, count, _ := strings.Cut(out, " Restarts=")
	count, _, _ = strings.Cut(count, " ")
	return count
}

func (w *world) cancel(id string) error {
	_, err := w.slurm("scancel", id)
	return err
}

// neverStarts: there is no machine until ResumeTimeout is over. The job goes to the other node of the set.
func (w *world) neverStarts() error {
	w.pods.hold("h-0")
	w.controller.fails("h-0", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
	return w.other("h-0", "h-1", "Unschedulable")
}

// cannotBeMade: the job goes to the other node of the set.
func (w *world) cannotBeMade() error {
	w.pods.hold("i-0")
	w.controller.fails("i-0", "ImagePullBackOff", "Back-off pulling image")
	return w.other("i-0", "i-1", "ImagePullBackOff")
}

func (w *world) other(bad, good, why string) error {
	id, err := w.batch("-p", "f", "-C", bad[:1])
	if err != nil {
		return err
	}
	if err := w.untilNodes(bad+" does not come down", func(r record) bool {
		return r.is("DOWN") && strings.Contains(r.Reason, why)
	}, bad); err != nil {
		return err
	}
	if err := w.until(bad+" has a pod", func() bool { return w.uid(bad) == "" }); err != nil {
		return err
	}
	if err := native.Within(150*time.Second, "job "+id+" does not run on "+good, func() bool { return w.job(id) == "RUNNING" }); err != nil {
		return err
	}
	w.controller.fails(bad, "", "")
	w.pods.release(bad)
	if err := w.endsAlone(id, good); err != nil || !full() {
		return err
	}
	return native.Within(2*limit, bad+" is not tried again", func() bool {
		nodes, err := w.nodes()
		return err == nil && off(nodes[bad])
	})
}

// awayBeforePod: what Slurm wants meanwhile comes when the maker is back.
func (w *world) awayBeforePod(node string) error {
	w.maker.Away(true, node)
	id, err := w.configuring(node)
	if err != nil {
		return err
	}
	if uid := w.uid(node); uid != "" {
		return fmt.Errorf("the maker is away, and there is pod %s", uid)
	}
	w.maker.Away(false, node)
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	return w.endsAlone(id, node)
}

// downBeforePod: slurmctld has looked for the address of a node without a pod when the next pod comes.
func (w *world) downBeforePod(node string) error {
	w.pods.hold(node)
	id, err := w.configuring(node)
	if err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "update", "nodename="+node, "state=down", "reason=a look at the disk"); err != nil {
		return err
	}
	if err := w.cancel(id); err != nil {
		return err
	}
	w.pods.release(node)
	for _, state := range []string{"power_down_force", "resume"} {
		if _, err := w.slurm("scontrol", "update", "nodename="+node, "state="+state); err != nil {
			return err
		}
	}
	if err := w.untilNodes(node+" does not come back", off, node); err != nil {
		return err
	}
	// A node that is off for less than a look keeps its pod, which 24.11 takes no slurmd of.
	if err := w.until(node+" keeps its pod", func() bool { return w.uid(node) == "" }); err != nil {
		return err
	}
	if id, err = w.running(node); err != nil {
		return err
	}
	return w.endsAlone(id, node)
}

// configuring submits a job that waits for its node to start.
func (w *world) configuring(node string) (id string, err error) {
	if id, err = w.batch("-p", node[:1], "-w", node); err != nil {
		return "", err
	}
	return id, w.untilJob(id, "CONFIGURING")
}

// awayBeforeIdle: a pod that was made starts without its maker, which knows it when it is back.
func (w *world) awayBeforeIdle(node string) error {
	w.pods.hold(node)
	id, err := w.configuring(node)
	if err != nil {
		return err
	}
	if err := w.until(node+" has no pod", func() bool { return w.uid(node) != "" }); err != nil {
		return err
	}
	uid := w.uid(node)
	w.maker.Away(true, node)
	w.pods.release(node)
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	w.maker.Away(false, node)
	if now := w.uid(node); now != uid {
		return fmt.Errorf("the job runs in pod %s, not in %s", now, uid)
	}
	return w.endsAlone(id, node)
}

// suspended has a job end, and the node suspended while its maker is away.
func (w *world) suspended(node string) (uid string, err error) {
	id, err := w.running(node)
	if err != nil {
		return "", err
	}
	w.maker.Away(true, node)
	if err := w.cancel(id); err != nil {
		return "", err
	}
	return w.uid(node), w.powersDown(node)
}

func (w *world) powersDown(node string) error {
	return w.untilNodes(node+" does not power down", func(r record) bool { return r.is("POWERING_DOWN") }, node)
}

// awayDuringSuspend: nothing ends but by the maker, and the next job has a pod of its own.
func (w *world) awayDuringSuspend(node string) error {
	uid, err := w.suspended(node)
	if err != nil {
		return err
	}
	if now := w.uid(node); now != uid || w.pods.of(node) == nil {
		return fmt.Errorf("the maker is away, and %s has pod %s after %s", node, now, uid)
	}
	w.maker.Away(false, node)
	id, err := w.running(node)
	if err != nil {
		return err
	}
	if w.uid(node) == uid {
		return fmt.Errorf("job %s runs in the pod that was suspended", id)
	}
	return w.endsAlone(id, node)
}

// awayTooLong: slurmctld gives the node up, and requeues its job. slurmctld's agent tries the node again after the pause.
func (w *world) awayTooLong(node string) error {
	w.maker.Away(true, node)
	id, err := w.configuring(node)
	if err != nil {
		return err
	}
	if err := native.Within(2*limit, node+" is not given up", func() bool {
		nodes, err := w.nodes()
		return err == nil && nodes[node].is("DOWN") && strings.HasPrefix(nodes[node].Reason, "ResumeTimeout reached")
	}); err != nil {
		return err
	}
	if err := w.until("job "+id+" is not requeued", func() bool { return w.restarts(id) == "1" }); err != nil {
		return fmt.Errorf("%w: it is %s", err, w.job(id))
	}
	w.maker.Away(false, node)
	if err := native.Within(3*limit, "job "+id+" does not run", func() bool { return w.job(id) == "RUNNING" }); err != nil {
		return fmt.Errorf("%w: it is %s", err, w.job(id))
	}
	return w.endsAlone(id, node)
}

// awayBetween: the old pod is replaced, because slurmctld takes no slurmd that is older than its wish for the node.
func (w *world) awayBetween(node string) error {
	uid, err := w.suspended(node)
	if err != nil {
		return err
	}
	return w.startsAnew(node, uid, func() { w.maker.Away(false, node) })
}

// wantedAtOnce: the pod that ends is not taken for the node's.
func (w *world) wantedAtOnce(node string) error {
	id, err := w.running(node)
	if err != nil {
		return err
	}
	uid := w.uid(node)
	w.pods.linger(node)
	if err := errors.Join(w.cancel(id), w.powersDown(node)); err != nil {
		return err
	}
	return w.startsAnew(node, uid, func() { w.pods.letGo(node) })
}

// startsAnew has an administrator end the wait for the end of a pod. The node of the next job starts at once, and the
// old pod is there until then is called.
func (w *world) startsAnew(node, old string, then func()) error {
	if _, err := w.slurm("scontrol", "update", "nodename="+node, "state=resume"); err != nil {
		return err
	}
	if err := w.untilNodes(node+" is not off", func(r record) bool { return r.is("POWERED_DOWN") }, node); err != nil {
		return err
	}
	id, err := w.configuring(node)
	if err != nil {
		return err
	}
	if now := w.uid(node); now != old {
		return fmt.Errorf("%s has pod %s, not %s", node, now, old)
	}
	if err := w.until("the controller does not hear of job "+id, func() bool { return w.controller.busy(node) }); err != nil {
		return err
	}
	then()
	if err := w.successor(node, old); err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	if count := w.restarts(id); count != "0" {
		return fmt.Errorf("job %s was started anew %s times", id, count)
	}
	return w.endsAlone(id, node)
}

// nothingLeft: no pod, all records, and slurmctld was never held by a name that nobody knows.
func (w *world) nothingLeft() error {
	w.lock.Lock()
	held := slices.IndexFunc(w.log, func(line string) bool { return strings.Contains(line, "getaddrinfo") })
	w.lock.Unlock()
	if held >= 0 {
		return fmt.Errorf("slurmctld looks for a name that nobody knows: %s", w.log[held])
	}
	if err := w.untilPods(); err != nil {
		return err
	}
	var nodes map[string]record
	saw := ""
	err := w.until("a node does not wait for a job", func() (good bool) {
		var err error
		if nodes, err = w.nodes(); err != nil {
			return false
		}
		saw = ""
		for name, n := range nodes {
			if waits := strings.HasSuffix(name, "-0") && name != "f-0" && n.is("DOWN"); (!off(n) || !n.is("CLOUD")) && !waits { // tried again after a minute
				saw = fmt.Sprintf("%s is %s: %s", name, strings.Join(n.State, "+"), n.Reason)
			}
		}
		return saw == ""
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, saw)
	}
	if len(nodes) != 18 {
		return fmt.Errorf("there are %d records, not 18", len(nodes))
	}
	return nil
}
