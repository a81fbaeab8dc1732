//go:build e2e

package controller

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyPods prints what -queued pods, which are made at once and take turns on the nodes, cost a real slurmctld: its RPCs by
// type. It is a part of `make bench-queue`.
func manyPods(q *queueBed) {
	n := *benchQueued
	if n == 0 {
		q.Skip("-queued says how many")
	}
	r := q.replicas[0]
	q.Logf("%d pods; the controller has %.0f MiB before", n, r.metric("process_resident_memory_bytes")/(1<<20))
	limit := patience + time.Duration(n)*4*time.Second
	submissions := func() int { return q.rpcs()["REQUEST_SUBMIT_BATCH_JOB"] }
	before := submissions()
	q.rpcsOf("the last pod is made, and the last job is submitted", func() {
		began := time.Now()
		(&crowded{bed: q.bed}).each(n, func(i int) { q.runs(fmt.Sprintf("many-%d", i), 10*time.Millisecond, nil) })
		q.Logf("the last pod was made after %.1f s", time.Since(began).Seconds())
		q.eventually(limit, "each pod has a job", func() bool { return submissions()-before == n })
	})
	q.rpcsOf("the last job has ended", func() {
		most := 0.0
		q.eventually(limit, "all pods have ended well", func() bool {
			most = max(most, r.metric("process_resident_memory_bytes"))
			list, err := q.kube.CoreV1().Pods("team").List(q.Context(), metav1.ListOptions{ResourceVersion: "0"})
			return err == nil && !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodSucceeded })
		})
		q.eventually(limit, "no job is left", func() bool {
			out, err := q.slurm.Command("/usr/bin/squeue", "--noheader").Output()
			return err == nil && len(out) == 0
		})
		q.Logf("the controller had %.0f MiB at most", most/(1<<20))
	})
}

// rpcsOf prints how long something takes, and slurmctld's RPCs meanwhile.
func (q *queueBed) rpcsOf(what string, do func()) {
	q.Helper()
	began, before := time.Now(), q.rpcs()
	do()
	took, after := time.Since(began), q.rpcs()
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		if n := after[kind] - before[kind]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", kind, n))
		}
	}
	q.Logf("%s: %.1f s; slurmctld's RPCs: %s", what, took.Seconds(), strings.Join(words, ", "))
}

// byType is a line of sdiag's statistics by message type.
var byType = regexp.MustCompile(`(?m)^\s+([A-Z_]+)\s+\( *\d+\) count:(\d+) `)

// rpcs are those that slurmctld has answered, by their type.
func (q *queueBed) rpcs() map[string]int {
	q.Helper()
	_, text, _ := strings.Cut(q.command("sdiag"), "Remote Procedure Call statistics by message type")
	text, _, _ = strings.Cut(text, "Remote Procedure Call statistics by user")
	counts := map[string]int{}
	for _, m := range byType.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(q, err)
		counts[m[1]] = n
	}
	require.NotEmpty(q, counts)
	return counts
}
