//go:build e2e

package kube

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// kubectlSlurmElastic: jobs that wait for pods which Kubernetes does not make or start.
func kubectlSlurmElastic(t *testing.T, c *cluster) {
	j := c.submit(t, "true", "-p", "noimage")
	c.says(t, "why slurm-noimage-0", "The image 127.0.0.1:1/slurmd:none cannot be pulled")
	c.says(t, "why "+j.id, "Nodes of the elastic set noimage do not start", "correct the set's image")
	c.upgrade(t, "--set", "nodeSets.noimage.image=localhost/slurmlet/slurmd:dev-"+c.version)
	j.becomes(t, "COMPLETED")
	c.upgrade(t, "--set", "nodeSets.noimage.image=127.0.0.1:1/slurmd:none")
	j = c.submit(t, "true", "-p", "nowhere")
	c.says(t, "why slurm-nowhere-0", "Kubernetes finds no machine for the pod", "label a machine as the node set's nodeSelector wants")
	c.says(t, "why "+j.id, "nowhere", "Unschedulable")
	c.kubectl(t, "label", "node", second, "example.com/kind=nowhere")
	j.becomes(t, "COMPLETED")
	c.kubectl(t, "label", "node", second, "example.com/kind-")
	if c.version != "24.11" { // which refuses it at once
		j = c.submit(t, "true", "-p", "burst", "-N5")
		answer := c.says(t, "why "+j.id, "The job wants 5 nodes, and the partition burst has 4", "the max of an elastic one")
		c.cure(t, answer, "kubectl exec ")
		j.becomes(t, "COMPLETED")
	}
	c.kubectl(t, "create", "quota", "none", "--hard=pods=0")
	j = c.submit(t, "true", "-p", "burst", "-N2")
	answer := c.says(t, "why "+j.id, "Nodes of the elastic set burst do not start", "exceeded quota")
	c.cure(t, answer, "kubectl describe ")
	c.kubectl(t, "delete", "quota", "none")
	j.becomes(t, "COMPLETED")
	c.zero(t)
}

// kubectlSlurmPods: a node set whose pod does not run, by each cause that Kubernetes tells, until the cure is applied.
func kubectlSlurmPods(t *testing.T, c *cluster) {
	const pod, values = "slurm-extra-0", "nodeSets.extra."
	extra := func(more string) { c.upgrade(t, "--set", values+"replicas=1,"+more) }
	extra(values + "image=127.0.0.1:1/slurmd:none," + values + "terminationGracePeriodSeconds=20")
	c.says(t, "why "+pod, "The image 127.0.0.1:1/slurmd:none is not on the machine, and image.pullPolicy is Never", "correct its name")
	extra(values + "image=localhost/slurmlet/slurmd:dev-" + c.version)
	c.idle(t, pod)

	extra(values + "resources.requests.cpu=90," + values + "resources.limits.cpu=100")
	c.says(t, "why "+pod, "Kubernetes finds no machine for the pod", "Insufficient cpu", "ask for less: resources of the node set")
	extra(values + "resources.requests.cpu=20m," + values + "resources.limits.cpu=1")
	c.idle(t, pod)

	extra(values + "resources.limits.memory=20Mi," + values + "resources.requests.memory=20Mi")
	c.says(t, "why "+pod, "The pod's container ends again and again", "exit status 78", "memory")
	extra(values + "resources.limits.memory=512Mi")
	c.idle(t, pod)

	c.kubectl(t, "taint", "node", "--all", "repair=now:NoSchedule")
	c.kubectl(t, "delete", "pod", pod)
	c.says(t, "why "+pod, "untolerated taint", "take the taint from a machine")
	c.kubectl(t, "taint", "node", "--all", "repair-")
	c.idle(t, pod)

	c.kubectl(t, "create", "quota", "none", "--hard=pods=0")
	c.kubectl(t, "delete", "pod", pod)
	answer := c.says(t, "why "+pod, "Kubernetes refuses pods of StatefulSet slurm-extra", "exceeded quota")
	c.cure(t, answer, "kubectl describe ")
	c.kubectl(t, "delete", "quota", "none")
	c.idle(t, pod)

	extra(values + "resources.limits.ephemeral-storage=40Mi")
	c.idle(t, pod)
	j := c.submit(t, "dd if=/dev/zero of=/tmp/filler bs=1M count=80; sleep 300", "-p", "extra", "--no-requeue")
	c.says(t, "why "+pod, "The kubelet ", "Pod ephemeral local storage usage exceeds the total limit", "give the node set more disk")
	answer = c.says(t, "why "+j.id, "A node of the job was lost: "+pod)
	c.cure(t, answer, "kubectl slurm why ")
	extra(values + "resources.limits.ephemeral-storage=400Mi")
	c.idle(t, pod)
	c.submit(t, "dd if=/dev/zero of=/tmp/filler bs=1M count=80", "-p", "extra").completes(t, "0")
	c.runHelm(t, append([]string{"upgrade", release, chart}, c.ofBed()...)...)
	c.gone(t, pod)
	c.bothIdle(t)
}

// kubectlSlurmEvicted: a pod that the eviction API ends waits for its job, and says so.
func kubectlSlurmEvicted(t *testing.T, c *cluster) {
	pod := c.onSecond(t)
	j := c.running(t, "sleep 20", "-w", pod)
	_, err := c.KubectlOn(t.Context(), `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+pod+`","namespace":"default"}}`,
		"create", "--raw", "/api/v1/namespaces/default/pods/"+pod+"/eviction", "-f", "-")
	assert.NoError(t, err)
	c.says(t, "why "+pod, "The pod is being deleted since", "waits for its jobs", "slurmlet deadline 60s")
	j.completes(t, "0")
	c.bothIdle(t)
}

// kubectlSlurmMachine: a machine whose kubelet is gone, until it is back.
func kubectlSlurmMachine(t *testing.T, c *cluster) {
	pod := c.onSecond(t)
	assert.NoError(t, c.Stop(t.Context(), second, "kubelet"))
	c.machineBecomes(t, "Unknown")
	answer := c.says(t, "why "+pod, "The machine "+second+" is not Ready", "Kubelet stopped posting node status")
	c.cure(t, answer, "kubectl describe node ")
	c.submit(t, "true", "-w", pod).completes(t, "0") // its slurmd is well
	assert.NoError(t, c.Start(t.Context(), second, "kubelet"))
	c.machineBecomes(t, "True")
	c.bothIdle(t)
	c.says(t, "why "+pod, "There is nothing to mend")
}
