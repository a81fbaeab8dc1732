//go:build e2e

package kube

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// controllerHome is the controller's release and namespace.
const controllerHome = "slurmlet"

// controller installs charts/slurmlet in a namespace that Pod Security restricts. It stays until the end.
func controller(t *testing.T, c *cluster) {
	c.kubectl(t, "create", "namespace", controllerHome)
	c.kubectl(t, "label", "namespace", controllerHome, "pod-security.kubernetes.io/enforce=restricted")
	there := &cluster{c.Bed, c.helm, c.version, controllerHome}
	there.runHelm(t, "install", controllerHome, "../../charts/slurmlet", "-f", "controller.yaml", "--wait", "--timeout", limit.String())
}

// injected: pods of an image that knows nothing of slurmlet become a node and a login pod by an annotation.
func injected(t *testing.T, c *cluster) {
	c.apply(t, "plain.yaml")
	c.idle(t, "plain-node")
	assert.Equal(t, "idle 1 448", c.node(t, "plain-node"))
	c.kubectl(t, "wait", "--for=condition=Ready", "pod/plain-node", "pod/plain-login", "--timeout", limit.String())
	until(t, "an event says so", func() (bool, string) {
		saw := c.kubectl(t, "get", "events", "--field-selector", "involvedObject.name=plain-node,reason=Injected", "-o", "jsonpath={.items[*].message}")
		return strings.Contains(saw, "The webhook gave the pod the agent"), saw
	})
	assert.Equal(t, "plain-node", c.kubectl(t, "exec", "plain-login", "-c", "slurm", "--", "srun", "-w", "plain-node", "hostname"))
	saw := strings.Fields(c.kubectl(t, "exec", "plain-login", "-c", "slurm", "--", "srun", "-w", "plain-node,slurm-cpu-0", "hostname"))
	assert.ElementsMatch(t, []string{"plain-node", "slurm-cpu-0"}, saw)
	assert.Contains(t, c.kubectl(t, "exec", "plain-node", "-c", "slurm", "--", "srun", "--mem=50", "perl", "-e", `print "a" x 10`), "aaaa")
	assert.NotContains(t, c.kubectl(t, "logs", "slurm-slurmctld-0"), "Unable to resolve", "DNS does not know the login pod")
	c.kubectl(t, "delete", "pod", "plain-node", "plain-login", "--timeout", limit.String())
	c.gone(t, "plain-node")
}

// fleet is a node set whose pods DNS does not know.
const fleet = "deployment/slurm-fleet"

// fleetPods are its pods that do not end.
func (c *cluster) fleetPods(t *testing.T) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(c.kubectl(t, "get", "pods", "-l", "slurmlet.dev/node-set=fleet", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{"\n"}{end}`)) {
		if words := strings.Fields(line); len(words) == 1 {
			names = append(names, words[0])
		}
	}
	return names
}

// scaleFleet scales it up, and waits for its nodes.
func (c *cluster) scaleFleet(t *testing.T, to int) []string {
	t.Helper()
	c.kubectl(t, "scale", fleet, fmt.Sprintf("--replicas=%d", to))
	want := fmt.Sprintf("%d idle", to)
	if to == 0 {
		c.kubectl(t, "wait", "--for=delete", "pod", "-l", "slurmlet.dev/node-set=fleet", "--timeout", limit.String())
		want = ""
	}
	until(t, fmt.Sprintf("the fleet has %d nodes", to), func() (bool, string) {
		saw := c.ask(t, "sinfo -h -p fleet -o '%D %T' | grep -v '^0 ' || true")
		return saw == want, saw
	})
	return c.fleetPods(t)
}

// nameless: with CoreDNS stopped, the nodes of a Deployment run jobs, every pod has the name of a new pod
// as soon as Kubernetes knows its address, and the new pod becomes a node.
func nameless(t *testing.T, c *cluster) {
	pods := c.scaleFleet(t, 2)
	script, err := os.ReadFile(filepath.Join("testdata", "rendezvous.sh"))
	require.NoError(t, err)
	require.NoError(t, c.DNS(t.Context(), false))
	up := sync.OnceFunc(func() { require.NoError(t, c.DNS(context.WithoutCancel(t.Context()), true)) })
	defer up()
	j := c.submit(t, string(script), "-N2", "-p", "fleet")
	j.completes(t, "0")
	slices.Sort(pods)
	assert.Contains(t, j.output(t), "met: "+strings.Join(pods, " "))

	// slurmctld must know where srun is.
	assert.ElementsMatch(t, pods, strings.Fields(c.slurm(t, "srun -N2 -p fleet hostname")))

	known := c.addressKnown(t, "slurm-cpu-2")
	looks := append([]string{"slurm-slurmctld-0", "slurm-login-0", "slurm-cpu-0", "slurm-cpu-1"}, pods...)
	found := make([]time.Time, len(looks))
	var all sync.WaitGroup
	for i, pod := range looks {
		all.Go(func() {
			out, err := c.Kubectl(t.Context(), "exec", pod, "--", "sh", "-c", "until grep -q '^[0-9].* slurm-cpu-2 ' /etc/hosts; do sleep 0.05; done; date +%s.%N; getent hosts slurm-cpu-2")
			if assert.NoError(t, err) {
				when, answer, _ := strings.Cut(out, "\n")
				assert.Contains(t, answer, "slurm-cpu-2", pod)
				seconds, err := strconv.ParseFloat(when, 64)
				assert.NoError(t, err)
				found[i] = time.UnixMilli(int64(seconds * 1000))
			}
		})
	}
	c.kubectl(t, "scale", set, "--replicas=3")
	at := <-known
	all.Wait()
	for i, pod := range looks {
		t.Logf("%s had the name %v after kubectl had the address", pod, found[i].Sub(at).Round(time.Millisecond))
		assert.Less(t, found[i].Sub(at), 10*time.Second, pod)
	}
	c.idle(t, "slurm-cpu-2")
	among := pods[0] + " slurm-cpu-2"
	assert.ElementsMatch(t, strings.Fields(among), strings.Fields(c.slurm(t, "srun -N2 -w "+strings.ReplaceAll(among, " ", ",")+" hostname")))
	up()
	c.kubectl(t, "scale", set, "--replicas=2")
	c.gone(t, "slurm-cpu-2")
	c.scaleFleet(t, 0)
}

// addressKnown tells when kubectl sees the address of a pod that comes.
func (c *cluster) addressKnown(t *testing.T, pod string) <-chan time.Time {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(c.Programs(), "kubectl"), "get", "pods", "--watch", "--field-selector", "metadata.name="+pod, "-o", `jsonpath={.status.podIP}{"\n"}`)
	cmd.Env = append(os.Environ(), c.Environment()...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	known := make(chan time.Time, 1)
	go func() {
		defer close(known)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.TrimSpace(lines.Text()) != "" {
				known <- time.Now()
				return
			}
		}
	}()
	return known
}

// reason is why a node is drained; empty if it is not.
func (c *cluster) reason(t *testing.T, node string) string {
	t.Helper()
	return c.ask(t, "scontrol show node "+node+" | sed -n 's/^ *Reason=\\(.*\\) \\[.*/\\1/p'")
}

func (c *cluster) drainedFor(t *testing.T, node, reason string) {
	t.Helper()
	until(t, node+" is drained", func() (bool, string) {
		saw := c.reason(t, node)
		return saw == reason && strings.Contains(c.node(t, node), "drain"), saw
	})
}

// cordon: Kubernetes' wishes drain the nodes of a machine, and resume what they have drained, while the job
// runs on.
func cordon(t *testing.T, c *cluster) {
	pod := c.onSecond(t)
	j := c.held(t, pod)
	for _, one := range []struct {
		on, off []string
		reason  string
	}{
		{[]string{"cordon", second}, []string{"uncordon", second}, "machine kube-2 is cordoned"},
		{
			[]string{"taint", "node", second, "ToBeDeletedByClusterAutoscaler=1:NoSchedule"},
			[]string{"taint", "node", second, "ToBeDeletedByClusterAutoscaler-"},
			"machine kube-2 has the taint ToBeDeletedByClusterAutoscaler=1:NoSchedule",
		},
	} {
		c.kubectl(t, one.on...)
		c.drainedFor(t, pod, "slurmlet cordon: "+one.reason)
		c.kubectl(t, one.off...)
		until(t, pod+" is resumed", func() (bool, string) {
			saw := c.node(t, pod)
			return saw != "" && !strings.Contains(saw, "drain"), saw
		})
	}
	assert.Equal(t, "RUNNING", j.is(t, "JobState"))
	j.release(t)

	c.slurm(t, "scontrol update nodename="+pod+" state=drain reason=disk")
	c.kubectl(t, "cordon", second)
	c.toldDrain(t, pod, true)
	c.kubectl(t, "uncordon", second)
	c.toldDrain(t, pod, false)
	c.drainedFor(t, pod, "disk")
	c.slurm(t, "scontrol update nodename="+pod+" state=resume")
	c.bothIdle(t)
}

// toldDrain waits until the agent knows whether Kubernetes wants its node drained.
func (c *cluster) toldDrain(t *testing.T, pod string, want bool) {
	t.Helper()
	until(t, pod+"'s agent knows", func() (bool, string) {
		saw := c.kubectl(t, "exec", pod, "--", "slurmlet", "status")
		return strings.Contains(saw, "machine kube-2 is cordoned") == want, saw
	})
}

// evict: an eviction grants less than the pod's 180 s, and the job is requeued before these are over.
func evict(t *testing.T, c *cluster) {
	pod := c.onSecond(t)
	j := c.running(t, "sleep 900", "-w", pod)
	began := time.Now()
	c.kubectl(t, "drain", second, "--ignore-daemonsets", "--delete-emptydir-data", "--grace-period=45", "--timeout", limit.String())
	t.Logf("the machine is empty after %v", time.Since(began).Round(time.Second/10))
	assert.Less(t, time.Since(began), 120*time.Second)
	assert.Equal(t, "1", j.is(t, "Restarts"))
	assert.Equal(t, "PENDING", j.is(t, "JobState"))
	assert.Contains(t, c.ask(t, "scontrol show node "+pod), "Reason=slurmlet: the pod is gone, and job "+j.id+" names the node")
	c.slurm(t, "scancel "+j.id)
	c.kubectl(t, "uncordon", second)
	c.bothIdle(t)
}

// held is a job that runs on a node until it is released.
func (c *cluster) held(t *testing.T, node string, options ...string) job {
	t.Helper()
	return c.running(t, "until [ -e /tmp/$SLURM_JOB_ID.go ]; do sleep 1; done", append([]string{"-w", node}, options...)...)
}

// release ends a held job, which completes without a restart.
func (j job) release(t *testing.T) {
	t.Helper()
	j.c.kubectl(t, "exec", j.is(t, "BatchHost"), "--", "touch", "/tmp/"+j.id+".go")
	j.completes(t, "0")
}

// scaleIn: a smaller Deployment loses its idle pods first.
func scaleIn(t *testing.T, c *cluster) {
	rounds := 3
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		rounds = 20
	}
	for round := range rounds {
		pods := c.scaleFleet(t, 3)
		require.Len(t, pods, 3)
		slices.Sort(pods)
		busy := pods[round%3]
		j := c.held(t, busy)
		want := "100,-100,-100"
		until(t, "the pods are marked", func() (bool, string) {
			saw := strings.Fields(c.kubectl(t, append([]string{"get", "pod", busy}, append(slices.DeleteFunc(slices.Clone(pods), func(p string) bool { return p == busy }),
				"-o", `jsonpath={range .items[*]}{.metadata.annotations.controller\.kubernetes\.io/pod-deletion-cost} {end}`)...)...))
			return strings.Join(saw, ",") == want, strings.Join(saw, ",")
		})
		c.kubectl(t, "scale", fleet, "--replicas=1")
		until(t, "one pod is left", func() (bool, string) {
			saw := c.fleetPods(t)
			return len(saw) == 1, strings.Join(saw, " ")
		})
		require.Equal(t, []string{busy}, c.fleetPods(t), "the busy one stays")
		j.release(t)
	}
	c.scaleFleet(t, 0)
}

// roll: the controller updates six nodes under load, and begins with the idle ones. No job is lost.
func roll(t *testing.T, c *cluster) {
	// kubectl scale has written the replicas before.
	c.upgrade(t, "--force-conflicts", "--set", "nodeSets.cpu.updates=idle,nodeSets.cpu.replicas=6,nodeSets.cpu.maxUnavailable=2")
	c.sixIdle(t)
	uids := func() map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(c.kubectl(t, "get", "pods", "-l", "slurmlet.dev/node-set=cpu", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)) {
			if words := strings.Fields(line); len(words) == 2 {
				all[words[0]] = words[1]
			}
		}
		return all
	}
	before := uids()
	busy := []string{"slurm-cpu-1", "slurm-cpu-3", "slurm-cpu-5"}
	var jobs []job
	for _, node := range busy {
		jobs = append(jobs, c.held(t, node))
	}
	until(t, "the busy pods are marked", func() (bool, string) {
		saw := c.kubectl(t, append(append([]string{"get", "pod"}, busy...), "-o", `jsonpath={.items[*].status.conditions[?(@.type=='slurmlet.dev/Idle')].status}`)...)
		return saw == "False False False", saw
	})
	began := time.Now()
	c.upgrade(t, "--set-string", "nodeSets.cpu.podAnnotations.edition=2")
	var short []job
	for range 6 {
		short = append(short, c.submit(t, "sleep 3", "-p", "cpu"))
	}
	until(t, "the idle pods are new", func() (bool, string) {
		now := uids()
		for _, pod := range busy {
			require.Equal(t, before[pod], now[pod], "a busy pod waits")
		}
		replaced := 0
		for _, pod := range []string{"slurm-cpu-0", "slurm-cpu-2", "slurm-cpu-4"} {
			if now[pod] != "" && now[pod] != before[pod] {
				replaced++
			}
		}
		return replaced == 3, fmt.Sprint(now)
	})
	t.Logf("the idle pods are new after %v", time.Since(began).Round(time.Second/10))
	for _, j := range short {
		j.completes(t, "0")
	}
	for _, j := range jobs {
		j.release(t)
	}
	until(t, "all pods are new", func() (bool, string) {
		now := uids()
		for pod, uid := range before {
			if now[pod] == "" || now[pod] == uid {
				return false, fmt.Sprint(now)
			}
		}
		return true, ""
	})
	c.sixIdle(t)
	t.Logf("all pods are new after %v", time.Since(began).Round(time.Second/10))
	c.upgrade(t, "--set", "nodeSets.cpu.updates=kubernetes,nodeSets.cpu.replicas=2,nodeSets.cpu.maxUnavailable=1")
	for n := 2; n < 6; n++ {
		c.gone(t, fmt.Sprintf("slurm-cpu-%d", n))
	}
	c.bothIdle(t)
}

func (c *cluster) sixIdle(t *testing.T) {
	t.Helper()
	until(t, "six nodes are idle, and their pods ready", func() (bool, string) {
		saw := c.ask(t, "sinfo -h -p cpu -o '%D %T'") + ", " + c.field(t, set, ".status.readyReplicas") + " ready"
		return saw == "6 idle, 6 ready", saw
	})
}

// machineDeleted: a machine is switched off, and somebody deletes its Node. Its job is requeued at once,
// where slurmctld alone would wait for SlurmdTimeout.
func machineDeleted(t *testing.T, c *cluster) {
	pod := c.onSecond(t)
	j := c.running(t, "sleep 900", "-w", pod)
	require.NoError(t, c.PowerOff(t.Context(), second))
	assert.Equal(t, "RUNNING", j.is(t, "JobState"))
	began := time.Now()
	c.kubectl(t, "delete", "node", second)
	until(t, "the job is requeued", func() (bool, string) {
		saw := j.is(t, "JobState") + " " + j.is(t, "Restarts")
		return saw == "PENDING 1", saw
	})
	t.Logf("requeued %v after kubectl delete node", time.Since(began).Round(time.Second/10))
	assert.Less(t, time.Since(began), 60*time.Second)
	c.slurm(t, "scancel "+j.id)
	require.NoError(t, c.PowerOn(t.Context(), second))
	c.nodeAgain(t)
	c.bothIdle(t)
}
