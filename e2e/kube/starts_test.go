//go:build e2e

package kube

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var starts = flag.Int("starts", 0, "how many `pods` TestStarts makes one after the other, with Slurm's queue and without; 0: it does not run")

const (
	// startsAtOnce is how many pods are made at once after that.
	startsAtOnce = 20
	// plainly is a namespace whose pods do not wait in Slurm's queue.
	plainly = "plainly"
)

// TestStarts measures how long pods in Slurm's queue take from Slurm's grant of a node to the start of their container, beside
// the same pods without Slurm: `make bench-starts`. Each part is real, and the machine has all of them.
func TestStarts(t *testing.T) {
	if *starts == 0 {
		t.Skip("-starts is 0")
	}
	c := up(t)
	queueInstall(t, c)
	c.kubectl(t, "create", "namespace", plainly)
	c.bothIdle(t)
	s := c.followStarts(t)
	s.pods(t, plainly, "warm", 2) // both machines have the image's layers in memory
	s.pods(t, team, "warm", 2)
	s.forget()
	for i := range *starts {
		for _, namespace := range []string{plainly, team} {
			s.pods(t, namespace, fmt.Sprintf("one-%d", i), 1)
		}
	}
	s.compare(t, fmt.Sprintf("%d pods one after the other", *starts))
	s.pods(t, plainly, "many", startsAtOnce)
	s.pods(t, team, "many", startsAtOnce)
	s.compare(t, fmt.Sprintf("%d pods at once", startsAtOnce))
}

// start is what is known of a pod's start.
type start struct {
	made, ungated, bound time.Time // when a watch has told
	started              time.Time // as its container says
	job                  string
	ended                bool
}

// startsOf are the starts of all pods, by their namespaces and names, and of all jobs.
type startsOf struct {
	*cluster
	lock sync.Mutex
	all  map[string]*start
	// granted is when slurmctld has allocated a job's nodes, and held when the job's node held for its pods.
	granted, held map[string]time.Time
}

// followStarts follows the pods and the logs of the agents until the test's end. The bed's machines have this one's clock.
func (c *cluster) followStarts(t *testing.T) *startsOf {
	t.Helper()
	s := &startsOf{cluster: c, all: map[string]*start{}, granted: map[string]time.Time{}, held: map[string]time.Time{}}
	for _, namespace := range []string{plainly, team} {
		s.follow(t, s.hearPod, "get", "pods", "-n", namespace, "--watch", "-o", "jsonpath={.metadata.namespace}/{.metadata.name}|"+
			`{.metadata.labels.slurmlet\.dev/job}|{.spec.schedulingGates[*].name}|{.spec.nodeName}|{.status.phase}|`+
			`{.status.containerStatuses[0].state.terminated.message}{"\n"}`)
	}
	s.follow(t, s.hearLog, "logs", "--follow", "--tail=0", "--selector=slurmlet.dev/cluster", "--max-log-requests=20")
	return s
}

func (s *startsOf) hearPod(line string) {
	now := time.Now()
	field := strings.Split(line, "|")
	if len(field) != 6 {
		return // of a container's message with several lines
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	one := s.all[field[0]]
	if one == nil {
		one = &start{made: now}
		s.all[field[0]] = one
	}
	one.job = cmp.Or(one.job, field[1])
	if field[2] == "" && one.ungated.IsZero() {
		one.ungated = now
	}
	if field[3] != "" && one.bound.IsZero() {
		one.bound = now
	}
	one.ended = field[4] == "Succeeded"
	if at, err := strconv.ParseFloat(strings.TrimSpace(field[5]), 64); err == nil {
		one.started = time.Unix(0, int64(at*1e9))
	}
}

// allocated is what slurmctld says when it gives a job its nodes: the main scheduler, or the backfill scheduler.
var allocated = regexp.MustCompile(`(?:Allocate|Started) JobId=(\d+) `)

func (s *startsOf) hearLog(line string) {
	var said struct {
		Time time.Time
		Msg  string
		Job  int
	}
	if json.Unmarshal([]byte(line), &said) != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if m := allocated.FindStringSubmatch(said.Msg); m != nil {
		s.granted[m[1]] = said.Time
	} else if said.Msg == "the node holds for a job of Kubernetes' pods" {
		s.held[strconv.Itoa(said.Job)] = said.Time
	}
}

// forget forgets what has been measured.
func (s *startsOf) forget() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.all = map[string]*start{}
}

// pods makes so many at once, and waits until all have ended, and their jobs.
func (s *startsOf) pods(t *testing.T, namespace, name string, n int) {
	t.Helper()
	var manifests strings.Builder
	for i := range n {
		fmt.Fprintf(&manifests, `---
apiVersion: v1
kind: Pod
metadata: {name: %s-%d, namespace: %s, annotations: {slurmjob.slinky.slurm.net/exclusive: "false"}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
  - name: c
    image: %s
    imagePullPolicy: Never
    command: [sh, -c, "date +%%s.%%N >/dev/termination-log"]
    resources: {requests: {cpu: 20m, memory: 16Mi}}
`, name, i, namespace, plainImage+s.version)
	}
	require.NoError(t, s.Apply(t.Context(), manifests.String()))
	until(t, "pods of "+name+" have ended", func() (bool, string) {
		ended := s.ended(namespace + "/" + name + "-")
		return ended == n, fmt.Sprintf("%d of %d", ended, n)
	})
	until(t, "no job is left", func() (bool, string) {
		left := s.ask(t, "squeue -h")
		return left == "", left
	})
}

// ended is how many pods have ended well whose names begin so.
func (s *startsOf) ended(beginning string) (n int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for name, one := range s.all {
		if strings.HasPrefix(name, beginning) && one.ended && !one.started.IsZero() {
			n++
		}
	}
	return n
}

// compare prints what has been measured, and forgets it.
func (s *startsOf) compare(t *testing.T, what string) {
	t.Helper()
	s.lock.Lock()
	times := map[string][]time.Duration{}
	unknown := 0 // a log may lose a line
	add := func(step string, from, to time.Time) {
		if from.IsZero() || to.IsZero() {
			unknown++
			return
		}
		times[step] = append(times[step], to.Sub(from))
	}
	for name, one := range s.all {
		if strings.HasPrefix(name, plainly) {
			add("made, bound", one.made, one.bound)
			add("bound, started", one.bound, one.started)
			add("made, started", one.made, one.started)
			continue
		}
		granted, held := s.granted[one.job], s.held[one.job]
		add("queue: made, granted", one.made, granted)
		add("queue: granted, held", granted, held)
		add("queue: held, ungated", held, one.ungated)
		add("queue: ungated, bound", one.ungated, one.bound)
		add("queue: bound, started", one.bound, one.started)
		add("queue: granted, started", granted, one.started)
	}
	s.lock.Unlock()
	s.forget()
	t.Logf("Slurm %s, %s; %d times are not known:", s.version, what, unknown)
	for _, step := range []string{
		"made, bound", "bound, started", "made, started", "queue: made, granted", "queue: granted, held", "queue: held, ungated", "queue: ungated, bound",
		"queue: bound, started", "queue: granted, started",
	} {
		all := times[step]
		require.NotEmpty(t, all, step)
		t.Logf("%-24s p50 %v, p99 %v (%d)", step, share(all, 50), share(all, 99), len(all))
	}
	with, without := times["queue: granted, started"], times["made, started"]
	t.Logf("from the grant with Slurm's queue to from the creation without: p50 %.2f, p99 %.2f times",
		share(with, 50).Seconds()/share(without, 50).Seconds(), share(with, 99).Seconds()/share(without, 99).Seconds())
}
