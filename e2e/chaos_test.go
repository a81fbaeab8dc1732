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

	"github.com/slurmlet/slurmlet/e2e/testbed/chaos"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// chaosNodes is how many nodes there are at first, mostNodes how many there may be.
const (
	chaosNodes = 8
	mostNodes  = chaosNodes + 2
)

// chaosGrace is above what any job of chaos takes: a pod that is deleted loses none.
const chaosGrace = time.Minute

// TestChaos lets a cluster run jobs of all kinds while pods are deleted, killed,
// cut off and scaled, slurmctld is restarted and slurm.conf is edited. Every job
// must end as it should. SLURMLET_CHAOS_TIME is for how long, 45 seconds by
// default; SLURMLET_CHAOS_SEED is which chaos: the same seed does the same things
// in the same order.
func TestChaos(t *testing.T) {
	t.Parallel()
	plan, err := chaos.Plan{Length: 45 * time.Second, Seed: 3}.Read()
	require.NoError(t, err)
	versions := parts.Versions()
	version := versions[plan.Seed%uint64(len(versions))]
	t.Logf("%s (Slurm %s)", plan.Again(), version)
	c := upAlone(t, fmt.Sprintf("chaos-%d", os.Getpid()), version)
	slurmctld, e := c.configMap()
	// A pod that was scaled away while slurmctld was away is missed by nobody but
	// slurmctld; and every job is asked for in the end.
	conf := set("SlurmdTimeout", "60")(set("MinJobAge", "7200")(e.conf()))
	e.files["slurm.conf"] = sandbox.File{Data: []byte(conf)}
	c.replace(t, slurmctld)
	things, jobs := plan.Dice()
	m := &mayhem{T: t, editing: e, dice: things, nodes: map[string]bool{}}
	m.scaleTo(chaosNodes)
	w := newWorkload(m.cluster, jobs)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.submitUntil(time.Now().Add(plan.Length))
	}()
	for end := time.Now().Add(plan.Length); time.Now().Before(end); {
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
	*editing
	dice *rand.Rand
	// nodes are the pods there should be; false while something is done to one.
	lock    sync.Mutex
	nodes   map[string]bool
	hard    int // pods killed
	edits   int
	pending sync.WaitGroup
	// restarting is held while slurmctld is.
	restarting sync.Mutex
}

// happen does one thing, which may go on for a while beside the next. What is
// drawn does not depend on what became of the things before.
func (m *mayhem) happen() {
	things := []struct {
		weight int
		name   string
		toNode func(node string) // nothing else is done to that node meanwhile
		do     func()
	}{
		{4, "a pod is deleted, and comes back", m.replace, nil},
		{2, "a container is killed", m.kill, nil},
		{2, "slurmd is killed", m.killSlurmd, nil},
		{2, "a cable is pulled out", m.cut, nil},
		{1, "a node less", m.less, nil},
		{1, "a node more", nil, m.more},
		{1, "slurmctld is restarted", nil, m.restartSlurmctld},
		{1, "a reconfigure", nil, m.reconfigure},
		{2, "an edit of slurm.conf", nil, m.edit},
	}
	total := 0
	for _, one := range things {
		total += one.weight
	}
	which, node := m.dice.IntN(total), chaosNode(m.dice.IntN(mostNodes))
	for _, one := range things {
		switch which -= one.weight; {
		case which >= 0:
			continue
		case one.do != nil:
			m.Logf("chaos: %s", one.name)
			m.pending.Go(one.do)
		case m.hold(node):
			m.Logf("chaos: %s (%s)", one.name, node)
			m.pending.Go(func() {
				one.toNode(node)
				m.release(node)
			})
		}
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

// more makes the first node that there is not, unless there are enough: of a name that
// was another pod's, as those of a StatefulSet are.
func (m *mayhem) more() {
	node, ok := m.missing()
	if !ok {
		return
	}
	m.must("create "+node, m.Create(m.Context(), m.node(node)))
	m.release(node)
}

// missing holds a node that is not there.
func (m *mayhem) missing() (node string, ok bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for i := range mostNodes {
		node = chaosNode(i)
		if _, there := m.nodes[node]; !there {
			m.nodes[node] = false
			return node, true
		}
	}
	return "", false
}

// restartSlurmctld restarts it unless it is being restarted: the next one's
// SIGTERM would meet a PID 1 that has not begun to run, to which it is nothing.
func (m *mayhem) restartSlurmctld() {
	if !m.restarting.TryLock() {
		return
	}
	defer m.restarting.Unlock()
	m.must("restart slurmctld", m.Restart(m.Context(), sandbox.Slurmctld, grace))
}

// reconfigure may meet a slurmctld that is starting.
func (m *mayhem) reconfigure() {
	_, _, _, err := m.Exec(m.Context(), sandbox.Slurmctld, "scontrol", "reconfigure")
	m.must("reconfigure", err)
}

// edit changes slurm.conf's file; every fifth time it is spoilt for some seconds.
func (m *mayhem) edit() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.edits++
	if m.edits%5 == 0 {
		all := allBadEdits()
		bad := all[m.edits/5%len(all)]
		m.Logf("chaos: %s", bad.name)
		m.must("spoil a file", m.SetFiles(m.Context(), sandbox.Slurmctld, "etc", m.spoilt(bad)))
		<-time.After(3 * time.Second)
	} else {
		m.files = m.with("slurm.conf", set("PrologEpilogTimeout", strconv.Itoa(100+m.edits))(m.conf()))
	}
	m.must("edit slurm.conf", m.SetFiles(m.Context(), sandbox.Slurmctld, "etc", m.files))
}

// scaleTo makes the nodes that the cluster has not made by itself.
func (m *mayhem) scaleTo(n int) {
	for i := range n {
		name := chaosNode(i)
		if i < 2 {
			require.NoError(m, m.Delete(m.Context(), name, grace)) // of another grace period
		}
		require.NoError(m, m.Create(m.Context(), m.node(name)))
		m.nodes[name] = true
	}
	m.waitAll()
}

// calm waits until all is as it should be again. An edit may have been refused,
// of which slurmctld or the nodes heard too late: the next one is taken. The one before may go
// live meanwhile, so what is live is looked at, and not whether it has changed.
func (m *mayhem) calm() {
	m.pending.Wait()
	m.waitAll()
	m.files = m.with("slurm.conf", set("PrologEpilogTimeout", "99")(m.conf()))
	m.swap(m.T, m.files)
	until(m.T, "the last edit is live", func() (bool, string) {
		live := m.run(m.T, sandbox.Slurmctld, "cat", "/run/slurmlet/conf/slurm.conf")
		return strings.Contains(live, m.conf()), live
	})
	m.waitLive(m.T, "")
}

func (m *mayhem) waitAll() {
	pods := []string{sandbox.Slurmctld}
	for node := range m.nodes {
		pods = append(pods, node)
	}
	m.waitReady(m.T, pods...)
}

// blows is how many containers were killed.
func (m *mayhem) blows() int { return m.hard }
