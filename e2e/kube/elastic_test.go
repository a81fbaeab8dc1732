//go:build e2e

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elasticHome is the namespace of a release with elastic sets.
const elasticHome = "elastic"

// elasticPods selects the pods that slurmlet's controller makes.
const elasticPods = "slurmlet.dev/elastic"

// burst are the nodes of the elastic set burst.
var burst = []string{"slurm-burst-0", "slurm-burst-1", "slurm-burst-2", "slurm-burst-3"}

// elastic runs a case in the namespace of elastic sets.
func elastic(run func(*testing.T, *cluster)) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		there := &cluster{c.Bed, c.helm, c.version, elasticHome}
		t.Cleanup(func() {
			if t.Failed() {
				there.tellElastic(t)
			}
		})
		run(t, there)
	}
}

// tellElastic puts what Slurm says into the log of a test that has failed.
func (c *cluster) tellElastic(t *testing.T) {
	for _, args := range [][]string{
		{"exec", "slurm-slurmctld-0", "--", "slurmlet", "status"},
		{"exec", "slurm-login-0", "--", "sh", "-c", "sinfo -N -o '%N %T %b'; sinfo -R; squeue; scontrol show node slurm-burst-0"},
	} {
		out, err := c.Kubectl(context.WithoutCancel(t.Context()), args...)
		t.Log(out, err)
	}
	c.tell(t)
}

// elasticInstall: the sets' nodes wait for jobs, and have no pods.
func elasticInstall(t *testing.T, c *cluster) {
	c.kubectl(t, "create", "namespace", elasticHome)
	c.kubectl(t, "label", "namespace", elasticHome, "pod-security.kubernetes.io/enforce=privileged") // gpu has the machine's devices
	c.runHelm(t, "install", release, chart, "--wait", "--timeout", limit.String(), "-f", "values.yaml", "-f", "testdata/elastic.yaml", "--set", "image.slurm="+c.version)
	c.idle(t, "slurm-cpu-0")
	c.zero(t)
}

// zero waits until no elastic set has a pod, and each record waits for a job.
func (c *cluster) zero(t *testing.T) {
	t.Helper()
	until(t, "no elastic node has a pod", func() (bool, string) {
		saw := c.kubectl(t, "get", "pods", "-l", elasticPods, "-o", "name")
		return saw == "", saw
	})
	until(t, "each elastic node waits for a job", func() (bool, string) {
		saw := c.ask(t, "sinfo -h -p burst,gpu,noimage,nowhere -N -o %t | sort | uniq -c | xargs; sinfo -h -R")
		return saw == "7 idle~", saw
	})
}

// prints says what srun prints, in the order of the words.
func (c *cluster) prints(t *testing.T, want []string, srun string) {
	t.Helper()
	began := time.Now()
	saw := strings.Fields(c.slurm(t, "timeout 400 srun "+srun))
	assert.ElementsMatch(t, want, saw, srun)
	t.Logf("srun %s: after %v", srun, time.Since(began).Round(time.Second/10))
}

// elasticFromZero prints the shares of slurmlet with Slurm, and of Kubernetes, in the time that a job waits.
func elasticFromZero(t *testing.T, c *cluster) {
	lines := strings.Fields(c.slurm(t, `date +%s.%N; timeout 400 srun -p burst -N4 sh -c 'echo $(hostname) $(date +%s.%N)'`))
	ended := time.Now()
	agents := c.kubectl(t, "logs", "-l", elasticPods+"=burst", "--prefix", "--timestamps", "--tail=-1")
	made := c.kubectl(t, "logs", "-n", controllerHome, "deployment/"+controllerHome, "--timestamps", "--tail=-1")
	c.zero(t)

	require.Len(t, lines, 9)
	submitted := printedTime(t, lines[0])
	var asked, up, runs time.Time // the last of the pods
	for _, pod := range burst {
		at := slices.Index(lines, pod)
		require.Positive(t, at, "%s does not run the job: %v", pod, lines)
		if begun := printedTime(t, lines[at+1]); begun.After(runs) {
			runs = begun
		}
		if at := lastLine(t, made, "a pod is made", `"`+pod+`"`); at.After(asked) {
			asked = at
		}
		_, first, found := strings.Cut(agents, "[pod/"+pod+"/slurmd] ")
		require.True(t, found, "%s has logged nothing: %s", pod, agents)
		if at := logged(t, first); at.After(up) {
			up = at
		}
	}
	t.Logf("srun -N4 from zero: the job runs after %.1f s: %.1f s until the pods are made, %.1f s of Kubernetes until their agents run, %.1f s until the job does; ours %.1f s. srun has ended after %.1f s",
		runs.Sub(submitted).Seconds(), asked.Sub(submitted).Seconds(), up.Sub(asked).Seconds(), runs.Sub(up).Seconds(),
		(asked.Sub(submitted) + runs.Sub(up)).Seconds(), ended.Sub(submitted).Seconds())
}

// printedTime is a time as date +%s.%N has it.
func printedTime(t *testing.T, text string) time.Time {
	t.Helper()
	seconds, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return time.UnixMilli(int64(seconds * 1000))
}

// lastLine is the time of the last line of kubectl logs --timestamps that has all the texts.
func lastLine(t *testing.T, log string, texts ...string) (at time.Time) {
	t.Helper()
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			at = logged(t, line)
		}
	}
	require.False(t, at.IsZero(), "no line has %q: %s", texts, log)
	return at
}

// logged is the time of a line of kubectl logs --timestamps.
func logged(t *testing.T, line string) time.Time {
	t.Helper()
	stamp, _, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	require.NoError(t, err, line)
	return at
}

func elasticArray(t *testing.T, c *cluster) {
	j := c.submit(t, "true", "-p", "burst", "--mem=50", "--array=1-50", "--output=/dev/null")
	until(t, "50 jobs have completed", func() (bool, string) {
		saw := c.ask(t, "squeue -h -r -t all -j "+j.id+" -o %T | sort | uniq -c | xargs")
		return saw == "50 COMPLETED", saw
	})
	c.zero(t)
}

// elasticKinds are jobs whose nodes a count of pending jobs would not tell.
func elasticKinds(t *testing.T, c *cluster) {
	c.prints(t, []string{"slurm-gpu-0", "2"}, `-p all -C gpu --gres=gpu:h200:2 sh -c 'hostname; echo $SLURM_GPUS_ON_NODE'`)
	c.slurm(t, "scontrol create reservation reservationname=r starttime=now duration=30 users=root nodes=slurm-burst-1")
	c.prints(t, []string{"slurm-burst-1"}, "-p burst --reservation=r hostname")
	c.slurm(t, "scontrol delete reservation=r")
	c.prints(t, burst[2:], "-p burst -N2 -w slurm-burst-[2-3] --exclusive hostname")
	c.prints(t, []string{"slurm-burst-0", "slurm-burst-1", "slurm-cpu-0"}, "-p burst -N2 -w slurm-burst-[0-1] hostname : -p cpu hostname")
	c.zero(t)
}

// uids are those of the elastic sets' pods.
func (c *cluster) uids(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(c.kubectl(t, "get", "pods", "-l", elasticPods, "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)) {
		name, uid, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = uid
	}
	return all
}

// elasticDeleted: the job ends within the grace period, and the node waits for the next one.
func elasticDeleted(t *testing.T, c *cluster) {
	j := c.running(t, "sleep 15", "-p", "burst")
	c.kubectl(t, "delete", "pod", j.is(t, "BatchHost"), "--timeout", limit.String())
	j.completes(t, "0")
	c.zero(t)
}

// elasticEvicted: the job outlives the time that the eviction grants, and begins again in another pod.
func elasticEvicted(t *testing.T, c *cluster) {
	j := c.running(t, "sleep 900", "-p", "burst")
	node := j.is(t, "BatchHost")
	evicted := c.uids(t)[node]
	require.NotEmpty(t, evicted)
	eviction, err := json.Marshal(map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]string{"name": node, "namespace": elasticHome},
		"deleteOptions": map[string]int{"gracePeriodSeconds": 30},
	})
	require.NoError(t, err)
	_, err = c.KubectlOn(t.Context(), string(eviction), "create", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction", elasticHome, node), "-f", "-")
	require.NoError(t, err)
	until(t, "the job is requeued", func() (bool, string) {
		saw := j.is(t, "Restarts")
		return saw == "1", saw
	})
	j.becomes(t, "RUNNING")
	assert.NotContains(t, []string{"", evicted}, c.uids(t)[j.is(t, "BatchHost")])
	c.slurm(t, "scancel "+j.id)
	c.zero(t)
}

// event waits for one about an object.
func (c *cluster) event(t *testing.T, object, reason, text string) {
	t.Helper()
	until(t, "an event tells of "+object, func() (bool, string) {
		saw := c.kubectl(t, "get", "events", "--field-selector", "involvedObject.name="+object+",reason="+reason, "-o", "jsonpath={.items[*].message}")
		return strings.Contains(saw, text), saw
	})
}

// downFor waits until slurmctld has the reason why a node's pod does not start.
func (c *cluster) downFor(t *testing.T, node, reason string) {
	t.Helper()
	until(t, node+" is down", func() (bool, string) {
		saw := c.reason(t, node)
		return strings.HasPrefix(saw, "slurmlet: ") && strings.Contains(saw, reason), saw
	})
	t.Log(c.reason(t, node))
}

// elasticNoImage: an image that cannot be pulled is the reason of the node and of an event, and the job waits.
func elasticNoImage(t *testing.T, c *cluster) {
	const node = "slurm-noimage-0"
	j := c.submit(t, "true", "-p", "noimage")
	c.event(t, node, "Failed", "127.0.0.1:1/slurmd:none")
	c.downFor(t, node, "ImagePull")
	assert.Equal(t, "PENDING", j.is(t, "JobState"))
	assert.Regexp(t, "Failed +"+node+", tried again at ", c.kubectl(t, "exec", "slurm-slurmctld-0", "--", "slurmlet", "status"))
	c.slurm(t, "scancel "+j.id)
	c.zero(t)
}

// elasticNowhere: as with the image, shortly before ResumeTimeout.
func elasticNowhere(t *testing.T, c *cluster) {
	const node = "slurm-nowhere-0"
	j := c.submit(t, "true", "-p", "nowhere")
	c.event(t, node, "FailedScheduling", "didn't match Pod's node affinity/selector")
	c.downFor(t, node, "Unschedulable")
	assert.Equal(t, "PENDING", j.is(t, "JobState"))
	c.slurm(t, "scancel "+j.id)
	c.zero(t)
}

// elasticQuota: the pods of a job that a quota refuses are made when it is gone.
func elasticQuota(t *testing.T, c *cluster) {
	c.kubectl(t, "create", "quota", "none", "--hard=pods=0")
	j := c.submit(t, "hostname", "-p", "burst", "-N2")
	c.event(t, "slurm-burst", "FailedCreate", "exceeded quota: none")
	c.kubectl(t, "delete", "quota", "none")
	j.becomes(t, "COMPLETED")
	c.zero(t)
}

// elasticControllerKilled: the controller is away when slurmctld asks for pods, and its successor is killed
// while it makes them. No pod is made twice.
func elasticControllerKilled(t *testing.T, c *cluster) {
	at := func(args ...string) { c.kubectl(t, append([]string{"-n", controllerHome}, args...)...) }
	at("scale", "deployment/"+controllerHome, "--replicas=0")
	at("wait", "--for=delete", "pod", "--all", "--timeout", limit.String())
	j := c.submit(t, "srun hostname; sleep 5", "-p", "burst", "-N4")
	until(t, "slurmctld has asked for the nodes", func() (bool, string) {
		saw := c.ask(t, "sinfo -h -p burst -N -o %t | uniq | xargs")
		return strings.HasSuffix(saw, "#") && !strings.Contains(saw, " "), saw
	})
	assert.Empty(t, c.uids(t))
	at("scale", "deployment/"+controllerHome, "--replicas=1")
	made := map[string]string{}
	look := func() {
		for pod, uid := range c.uids(t) {
			assert.Contains(t, []string{"", uid}, made[pod], pod+" is made twice")
			made[pod] = uid
		}
	}
	until(t, "a pod is made", func() (bool, string) { look(); return len(made) > 0, "" })
	at("delete", "pod", "--all", "--grace-period=0", "--force")
	until(t, "the job runs", func() (bool, string) {
		look()
		saw := j.is(t, "JobState")
		return saw == "RUNNING" || saw == "COMPLETED", saw
	})
	j.completes(t, "0")
	at("rollout", "status", "deployment/"+controllerHome, "--timeout", limit.String())
	c.zero(t)
	assert.Len(t, made, len(burst))
}

// elasticMachineOff: a machine with a part of a job's pods is switched off, and somebody deletes its Node. The job
// begins again, in other pods.
func elasticMachineOff(t *testing.T, c *cluster) {
	j := c.running(t, "srun sleep 900", "-p", "burst", "-N4")
	lost := strings.Fields(c.kubectl(t, "get", "pods", "-l", elasticPods, "--field-selector", "spec.nodeName="+second, "-o", "jsonpath={.items[*].metadata.name}"))
	require.NotEmpty(t, lost)
	before := c.uids(t)
	require.NoError(t, c.PowerOff(t.Context(), second))
	began := time.Now()
	c.kubectl(t, "delete", "node", second)
	until(t, "the job is requeued", func() (bool, string) {
		saw := j.is(t, "Restarts")
		return saw == "1", saw
	})
	j.becomes(t, "RUNNING")
	t.Logf("the job runs anew %v after kubectl delete node", time.Since(began).Round(time.Second/10))
	after := c.uids(t)
	for _, pod := range lost {
		assert.NotContains(t, []string{"", before[pod]}, after[pod], pod)
	}
	c.slurm(t, "scancel "+j.id)
	require.NoError(t, c.PowerOn(t.Context(), second))
	c.nodeAgain(t)
	c.zero(t)
	(&cluster{c.Bed, c.helm, c.version, ""}).bothIdle(t)
}

// elasticRounds leave nothing behind.
func elasticRounds(t *testing.T, c *cluster) {
	rounds := 3
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		rounds = 20
	}
	for range rounds {
		c.prints(t, burst, "-p burst -N4 hostname")
		c.zero(t)
	}
}

// elasticUninstall: the pods of the sets go with their PodTemplate, after their grace period.
func elasticUninstall(t *testing.T, c *cluster) {
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		c.prints(t, burst[:1], "-p burst -w slurm-burst-0 hostname")
		require.Len(t, c.uids(t), 1)
	}
	c.runHelm(t, "uninstall", release, "--wait", "--timeout", limit.String())
	until(t, "the pods have ended", func() (bool, string) {
		saw := c.kubectl(t, "get", "pods,podtemplates", "-o", "name")
		return saw == "", saw
	})
	c.kubectl(t, "delete", "namespace", elasticHome, "--timeout", limit.String())
}
