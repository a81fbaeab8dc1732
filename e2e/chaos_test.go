//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/sandbox"
	"github.com/slurmlet/slurmlet/internal/sandbox/parts"
)

// chaosNodes is how many nodes there are when nothing was scaled.
const chaosNodes = 8

// chaosGrace is above what any job of chaos takes: a pod that is deleted loses none.
const chaosGrace = time.Minute

// TestChaos lets a cluster run jobs of all kinds while pods are deleted, killed,
// cut off and scaled and slurmctld is restarted. Every job must end as it
// should. SLURMLET_CHAOS_TIME is for how long, SLURMLET_CHAOS_SEED which chaos:
// the same seed does the same things in the same order.
func TestChaos(t *testing.T) {
	text := os.Getenv("SLURMLET_CHAOS_TIME")
	if text == "" {
		t.Skip("make chaos sets SLURMLET_CHAOS_TIME")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "SLURMLET_CHAOS_TIME")
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLURMLET_CHAOS_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "SLURMLET_CHAOS_SEED")
	}
	versions := parts.Versions()
	version := versions[seed%uint64(len(versions))]
	t.Logf("to repeat it: SLURMLET_CHAOS_SEED=%d SLURMLET_CHAOS_TIME=%v (Slurm %s)", seed, length, version)
	m := &mayhem{T: t, cluster: up(t, fmt.Sprintf("chaos-%d", os.Getpid()), version), dice: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]bool{}}
	m.scaleTo(chaosNodes)
	w := newWorkload(m.cluster, rand.New(rand.NewPCG(seed, 1)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.submitUntil(time.Now().Add(length))
	}()
	for end := time.Now().Add(length); time.Now().Before(end); {
		m.happen()
		<-time.After(time.Duration(m.dice.Int64N(int64(3 * time.Second))))
	}
	<-ended
	m.calm()
	w.judge(t, m.blows())
}

// mayhem does things to a cluster.
type mayhem struct {
	*testing.T
	*cluster
	dice *rand.Rand
	// nodes are the pods there should be; false while something is done to one.
	lock    sync.Mutex
	nodes   map[string]bool
	made    int
	hard    int // pods killed
	pending sync.WaitGroup
}

// happen does one thing, which may go on for a while beside the next. What is
// drawn does not depend on what became of the things before.
func (m *mayhem) happen() {
	things := []struct {
		weight int
		name   string
		do     func(node string)
	}{
		{4, "a pod is deleted, and comes back", m.replace},
		{2, "a container is killed", m.kill},
		{2, "slurmd is killed", m.killSlurmd},
		{2, "a cable is pulled out", m.cut},
		{1, "a node less", m.less},
		{1, "a node more", m.more},
		{1, "slurmctld is restarted", m.restartController},
		{1, "a reconfigure", m.reconfigure},
	}
	total := 0
	for _, one := range things {
		total += one.weight
	}
	which, node := m.dice.IntN(total), chaosNode(m.dice.IntN(chaosNodes))
	for _, one := range things {
		if which -= one.weight; which >= 0 {
			continue
		}
		switch {
		case one.name == "a node more":
			node = chaosNode(m.made)
			m.made++
		case !m.hold(node):
			return // something is being done to it
		}
		m.Logf("chaos: %s (%s)", one.name, node)
		m.pending.Go(func() {
			one.do(node)
			m.release(node)
		})
		return
	}
}

// hold holds a node that nothing is done to, as long as there are enough others.
func (m *mayhem) hold(node string) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	free := 0
	for _, is := range m.nodes {
		if is {
			free++
		}
	}
	if !m.nodes[node] || free <= chaosNodes/2 {
		return false
	}
	m.nodes[node] = false
	return true
}

func (m *mayhem) release(node string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if _, there := m.nodes[node]; there {
		m.nodes[node] = true
	}
}

func chaosNode(i int) string { return fmt.Sprintf("node-%d", i) }

// node is a small pod of one CPU, whose name may say its number only.
func (m *mayhem) node(name string) sandbox.PodSpec {
	i, _ := strconv.Atoi(strings.TrimPrefix(name, "node-"))
	spec := m.Node(i)
	spec.Env["SLURMLET_GRACE_PERIOD"] = chaosGrace.String()
	return spec
}

func (m *mayhem) must(what string, err error) {
	if err != nil {
		m.Errorf("chaos: cannot %s: %v", what, err)
	}
}

func (m *mayhem) replace(node string) {
	m.must("delete "+node, m.Delete(m.Context(), node, chaosGrace+10*time.Second))
	m.must("create "+node, m.Create(m.Context(), m.node(node)))
}

func (m *mayhem) kill(node string) {
	m.lock.Lock()
	m.hard++
	m.lock.Unlock()
	m.must("kill "+node, m.Kill(m.Context(), node, "KILL"))
}

// killSlurmd may find none: it may be starting.
func (m *mayhem) killSlurmd(node string) {
	_, _, _, err := m.Exec(m.Context(), node, "pkill", "-9", "-x", "slurmd")
	m.must("kill slurmd in "+node, err)
}

func (m *mayhem) cut(node string) {
	m.must("cut "+node, m.Link(m.Context(), node, false))
	<-time.After(5 * time.Second)
	m.must("connect "+node, m.Link(m.Context(), node, true))
}

func (m *mayhem) less(node string) {
	m.must("delete "+node, m.Delete(m.Context(), node, chaosGrace+10*time.Second))
	m.lock.Lock()
	delete(m.nodes, node)
	m.lock.Unlock()
}

func (m *mayhem) more(node string) {
	m.must("create "+node, m.Create(m.Context(), m.node(node)))
	m.lock.Lock()
	m.nodes[node] = true
	m.lock.Unlock()
}

func (m *mayhem) restartController(string) {
	m.must("restart slurmctld", m.Restart(m.Context(), sandbox.Controller, grace))
}

// reconfigure may meet a slurmctld that is starting.
func (m *mayhem) reconfigure(string) {
	_, _, _, err := m.Exec(m.Context(), sandbox.Controller, "scontrol", "reconfigure")
	m.must("reconfigure", err)
}

// scaleTo makes the nodes that the cluster has not made by itself.
func (m *mayhem) scaleTo(n int) {
	for ; m.made < n; m.made++ {
		name := chaosNode(m.made)
		if m.made < 2 {
			require.NoError(m, m.Delete(m.Context(), name, grace)) // of another grace period
		}
		require.NoError(m, m.Create(m.Context(), m.node(name)))
		m.nodes[name] = true
	}
	m.waitAll()
}

// calm waits until all is as it should be again.
func (m *mayhem) calm() {
	m.pending.Wait()
	m.waitAll()
}

func (m *mayhem) waitAll() {
	pods := []string{sandbox.Controller}
	for node := range m.nodes {
		pods = append(pods, node)
	}
	m.waitReady(m.T, pods...)
}

// blows is how many containers were killed.
func (m *mayhem) blows() int { return m.hard }
