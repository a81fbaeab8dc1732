//go:build e2e

package ends

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const (
	// nodes is how many there are, of which every tenth has a job.
	nodes     = 32
	slurmConf = "SlurmctldParameters=enable_configless,conmgr_max_connections=512\nMaxNodeCount=64\nMinJobAge=3600\n"
	volume    = "/run/volume"
	limit     = native.Limit
)

// world is a cluster whose slurmctld runs under its agent.
type world struct {
	*native.Cluster
	gate *native.Gate
	jobs []string

	lock sync.Mutex
	log  []string
}

func (w *world) heard(line string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.log = append(w.log, line)
}

// said counts the lines of slurmctld's agent with a text in them.
func (w *world) said(text string) (n int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, line := range w.log {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// busy are the nodes with a job, idle the others.
func (w *world) busy() (all []*native.Node) {
	for i := 0; i < nodes; i += 10 {
		all = append(all, w.Nodes[i])
	}
	return all
}

func (w *world) idle() (all []*native.Node) {
	for i, n := range w.Nodes {
		if i%10 != 0 {
			all = append(all, n)
		}
	}
	return all
}

// begin has all nodes Ready and known to slurmctld's agent, and jobs on some.
func (w *world) begin() error {
	files, err := w.Sources()
	if err != nil {
		return err
	}
	if _, err := w.NewVolume(volume, files); err != nil {
		return err
	}
	if err := w.ControlBySlurmlet(volume, w.heard); err != nil {
		return err
	}
	if err := w.startAll(); err != nil {
		return err
	}
	if w.gate, err = w.NewGate(); err != nil {
		return err
	}
	for _, n := range w.busy() {
		id, err := w.Submit(n.Name)
		if err != nil {
			return err
		}
		w.jobs = append(w.jobs, id)
	}
	if err := native.Within(limit, "not all jobs run", func() bool { return w.jobsIn("RUNNING") == len(w.jobs) }); err != nil {
		return err
	}
	return native.Within(limit, "not all agents follow", func() bool { return established() == nodes })
}

// startAll starts some nodes at a time.
func (w *world) startAll() error {
	var next atomic.Int64
	faults := make(chan error, nodes)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < nodes; i = next.Add(1) - 1 {
				faults <- w.startOne(w.Nodes[i])
			}
		})
	}
	all.Wait()
	close(faults)
	for err := range faults {
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) startOne(n *native.Node) error {
	if err := w.Start(n, "SLURMLET_GRACE_PERIOD=10m"); err != nil {
		return err
	}
	return n.AwaitReady(limit)
}

// each calls do for nodes, and returns the first fault.
func each(all []*native.Node, do func(*native.Node) error) error {
	for _, n := range all {
		if err := do(n); err != nil {
			return err
		}
	}
	return nil
}

// exited waits for the ends of nodes, which are good.
func exited(all []*native.Node) error {
	after := time.After(2 * limit)
	return each(all, func(n *native.Node) error {
		select {
		case <-n.Exited:
		case <-after:
			return fmt.Errorf("%s has not exited", n.Name)
		}
		if !n.EndedWell() {
			return fmt.Errorf("%s exited with %d", n.Name, n.Status)
		}
		return nil
	})
}

// waiting wants nodes to wait for their jobs.
func waiting(all []*native.Node) error {
	after := time.After(2 * limit)
	return each(all, func(n *native.Node) error {
		select {
		case <-n.Waiting:
			return nil
		case <-n.Exited:
			return fmt.Errorf("%s has left its job", n.Name)
		case <-after:
			return fmt.Errorf("%s does not wait for its job", n.Name)
		}
	})
}

// left are the records that slurmctld has.
func (w *world) left() ([]string, error) {
	var answer struct{ Nodes []struct{ Name string } }
	if err := w.Ask(&answer, "/usr/bin/scontrol", "show", "nodes"); err != nil {
		return nil, err
	}
	var names []string
	for _, n := range answer.Nodes {
		names = append(names, n.Name)
	}
	return names, nil
}

// jobsIn counts the jobs in a state that were started once.
func (w *world) jobsIn(state string) (n int) {
	var answer struct {
		Jobs []struct {
			ID       int      `json:"job_id"`
			State    []string `json:"job_state"`
			Restarts int      `json:"restart_cnt"`
		}
	}
	if err := w.Ask(&answer, "/usr/bin/scontrol", "show", "jobs"); err != nil {
		return -1
	}
	for _, job := range answer.Jobs {
		for _, id := range w.jobs {
			if strconv.Itoa(job.ID) == id && job.State[0] == state && job.Restarts == 0 {
				n++
			}
		}
	}
	return n
}

// gone wants no record to be left, and every job to have completed.
func (w *world) gone() error {
	names, err := w.left()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("%d node records are left, that of %s first", len(names), names[0])
	}
	if n := w.jobsIn("COMPLETED"); n != len(w.jobs) {
		return fmt.Errorf("%d of %d jobs are COMPLETED", n, len(w.jobs))
	}
	return nil
}

// direct counts why nodes have asked slurmctld themselves.
func (w *world) direct() map[string]int {
	reasons := map[string]int{}
	for _, n := range w.Nodes {
		for _, line := range n.Log() {
			if _, why, is := strings.Cut(line, `"asks slurmctld itself",`); is {
				reasons[why]++
			}
		}
	}
	return reasons
}

// few is how many nodes had their record deleted with fewer than 16 at once. They are not told that it is gone, and delete
// it again.
func (w *world) few() (n int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, line := range w.log {
		_, rest, is := strings.Cut(line, `"delete: asked slurmctld for `)
		number, _, _ := strings.Cut(rest, " ")
		if one, err := strconv.Atoi(number); is && err == nil && one < 16 {
			n += one
		}
	}
	return n
}

// explain prints the last lines of slurmctld's agent and of nodes that are still there.
func (w *world) explain() {
	w.lock.Lock()
	lines := w.log[max(0, len(w.log)-20):]
	w.lock.Unlock()
	fmt.Println(strings.Join(lines, "\n"))
	fmt.Println("why nodes have asked slurmctld themselves:", w.direct())
	told := 0
	for _, n := range w.Nodes {
		if n.Started() && (!n.Ended() || n.Status != 0) && told < 2 {
			log := n.Log()
			fmt.Println(strings.Join(log[max(0, len(log)-20):], "\n"))
			told++
		}
	}
}
