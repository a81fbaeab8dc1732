//go:build e2e

package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestQueue has Kubernetes' pods wait in Slurm's queue, on a bed of its own: both charts, real slurmctld, slurmd, kubelets
// and kube-scheduler.
func TestQueue(t *testing.T) {
	c := up(t)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"both charts are installed", queueInstall},
		{"a pod waits for its job, and its end ends the job", queuePodEnds},
		{"the end of a job ends its pod, and the node waits for it", queueJobEnds},
		{"a gang of two is one job", queueGang},
		{"a namespace without a user is told", queueNobody},
		{"a pod of Kubernetes' own priorities is refused", refuseCritical},
		{"nodes are their machines, less a reserve", shareMachines},
		{"jobs and pods take turns on a machine", takeTurns},
		{"pods share a node with each other", shareNodes},
	} {
		if !t.Run(one.name, func(t *testing.T) { one.run(t, c) }) {
			return // the rest would fail for the same reason
		}
	}
}

// team is a namespace whose pods wait.
const team = "team"

func queueInstall(t *testing.T, c *cluster) {
	c.kubectl(t, "create", "namespace", controllerHome)
	there := &cluster{c.Bed, c.helm, c.version, controllerHome}
	there.runHelm(t, "install", controllerHome, "../../charts/slurmlet", "-f", "controller.yaml", "--set", "bridge.enabled=true", "--wait", "--timeout", limit.String())
	c.installFrom(t, chart, "--set", "login.gateway.enabled=true,login.gateway.users={alice},users[0].name=alice,users[0].uid=2001")
	for _, namespace := range []string{team, "nobody"} {
		c.kubectl(t, "create", "namespace", namespace)
		c.kubectl(t, "annotate", "namespace", namespace, "slurmlet.dev/cluster=default/slurm")
		c.kubectl(t, "label", "namespace", namespace, "slurmlet.dev/bridge=true")
	}
	c.kubectl(t, "annotate", "namespace", team, "slurmlet.dev/user=alice")
}

// queued makes a pod that runs a script, with an annotation of slurm-bridge's, and waits for its gate.
func (c *cluster) queued(t *testing.T, namespace, name, script string) {
	t.Helper()
	require.NoError(t, c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, annotations: {slurmjob.slinky.slurm.net/job-name: %s-job}}
spec:
  schedulerName: slurm-bridge-scheduler
  restartPolicy: Never
  terminationGracePeriodSeconds: 20
  automountServiceAccountToken: false
  containers:
  - name: c
    image: %s
    imagePullPolicy: Never
    command: [sh, -c, %q]
    resources: {requests: {cpu: 50m, memory: 32Mi}}
`, name, namespace, name, plainImage+c.version, script)))
	assert.Equal(t, "slurmlet.dev/slurm", c.kubectl(t, "get", "pod", "-n", namespace, name, "-o", "jsonpath={.spec.schedulingGates[*].name}{.metadata.labels.slurmlet\\.dev/job}"))
}

// pod is a field of a pod of team; empty if it is gone.
func (c *cluster) pod(t *testing.T, name, path string) string {
	t.Helper()
	return c.kubectl(t, "get", "pod", "-n", team, name, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
}

// phase waits for one.
func (c *cluster) phase(t *testing.T, name, want string) {
	t.Helper()
	until(t, name+" is "+want, func() (bool, string) {
		saw := c.pod(t, name, ".status.phase")
		return saw == want, saw + "; " + c.kubectl(t, "get", "events", "-n", team, "-o", "jsonpath={range .items[*]}{.involvedObject.name}: {.reason} {.message}; {end}")
	})
}

// jobOf is what slurmctld says of the job of a pod of team.
func (c *cluster) jobOf(t *testing.T, name, format string) string {
	t.Helper()
	return strings.TrimSpace(c.slurm(t, "squeue -h -t all -n "+name+"-job -o '"+format+"'"))
}

func queuePodEnds(t *testing.T, c *cluster) {
	hog := c.running(t, "sleep 1000", "--exclusive", "-N2")
	c.queued(t, team, "first", "sleep 5; exit 3")
	until(t, "its job waits in the queue", func() (bool, string) {
		saw := c.jobOf(t, "first", "%u %t")
		return saw == "alice PD", saw
	})
	until(t, "an event says why", func() (bool, string) {
		saw := c.kubectl(t, "get", "events", "-n", team, "--field-selector", "involvedObject.name=first,reason=Waiting", "-o", "jsonpath={.items[*].message}")
		return strings.Contains(saw, "waits: "), saw
	})
	assert.Equal(t, "slurmlet.dev/slurm", c.pod(t, "first", ".spec.schedulingGates[*].name"))
	_, err := c.Kubectl(t.Context(), "patch", "pod", "-n", team, "first", "--type=json", "-p", `[{"op":"remove","path":"/spec/schedulingGates"}]`)
	require.ErrorContains(t, err, "slurmlet's controller alone takes the gate")
	c.slurm(t, "scancel "+hog.id)
	freed := time.Now()
	c.phase(t, "first", "Failed")
	t.Logf("the pod had run, and failed as it should, %v after the nodes were free", time.Since(freed).Round(100*time.Millisecond))
	node := c.pod(t, "first", `.metadata.annotations.slurmlet\.dev/slurm-node`)
	assert.Equal(t, c.kubectl(t, "get", "pod", node, "-o", "jsonpath={.spec.nodeName}"), c.pod(t, "first", ".spec.nodeName"), "the pod is on the machine of its job's node")
	until(t, "its job has failed, too", func() (bool, string) {
		saw := c.jobOf(t, "first", "%t %N")
		return saw == "F "+node, saw
	})
	c.bothIdle(t)
	c.kubectl(t, "delete", "pod", "-n", team, "first")
}

func queueJobEnds(t *testing.T, c *cluster) {
	c.queued(t, team, "second", "trap 'sleep 12; exit 0' TERM; while :; do sleep 0.2; done")
	c.phase(t, "second", "Running")
	job, node := c.jobOf(t, "second", "%i"), c.jobOf(t, "second", "%N")
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	condition := make(chan string, 1)
	go func() {
		out, err := c.Kubectl(ctx, "wait", "-n", team, "pod/second", "--for=condition=DisruptionTarget", "--timeout", limit.String())
		condition <- fmt.Sprint(out, err)
	}()
	c.slurm(t, "scancel "+job)
	until(t, "the pod is deleted", func() (bool, string) {
		saw := c.pod(t, "second", ".metadata.deletionTimestamp")
		return saw != "", saw
	})
	assert.Contains(t, <-condition, "condition met")
	completing := 0
	until(t, "the pod is gone, and its node was not free before", func() (bool, string) {
		state := c.slurm(t, "squeue -h -t all -j "+job+" -o %t; sinfo -h -N -n "+node+" -o %T")
		there := c.pod(t, "second", ".metadata.name") != ""
		if words := strings.Fields(state); len(words) > 1 && there {
			assert.Contains(t, []string{"R", "CG"}, words[0], "the pod is there")
			if words[0] == "CG" {
				completing++
			}
		}
		return !there, state
	})
	assert.Positive(t, completing, "the job was COMPLETING")
	until(t, "the job is cancelled", func() (bool, string) {
		saw := c.jobOf(t, "second", "%t")
		return saw == "CA", saw
	})
	c.bothIdle(t)
}

func queueGang(t *testing.T, c *cluster) {
	require.NoError(t, c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: gang, namespace: %s, annotations: {slurmlet.dev/gang: "true", slurmjob.slinky.slurm.net/job-name: gang-job}}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      containers:
      - name: c
        image: %s
        imagePullPolicy: Never
        command: [sh, -c, "sleep 5"]
        resources: {requests: {cpu: 50m, memory: 32Mi}}
`, team, plainImage+c.version)))
	c.kubectl(t, "wait", "-n", team, "job/gang", "--for=condition=Complete", "--timeout", limit.String())
	machines := strings.Fields(c.kubectl(t, "get", "pods", "-n", team, "-l", "job-name=gang", "-o", "jsonpath={.items[*].spec.nodeName}"))
	assert.ElementsMatch(t, []string{"kube-1", "kube-2"}, machines)
	until(t, "the one job has ended well", func() (bool, string) {
		saw := c.jobOf(t, "gang", "%t %D")
		return saw == "CD 2", saw
	})
	c.bothIdle(t)
	c.kubectl(t, "delete", "job", "-n", team, "gang")
}

func queueNobody(t *testing.T, c *cluster) {
	c.queued(t, "nobody", "third", "true")
	until(t, "an event says so", func() (bool, string) {
		saw := c.kubectl(t, "get", "events", "-n", "nobody", "--field-selector", "reason=NotSubmitted", "-o", "jsonpath={.items[*].message}")
		return strings.Contains(saw, "the namespace nobody names no Slurm user"), saw
	})
	assert.Equal(t, "slurmlet.dev/slurm", c.kubectl(t, "get", "pod", "-n", "nobody", "third", "-o", "jsonpath={.spec.schedulingGates[*].name}"))
}
