//go:build e2e

package gone

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/fakecontroller"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

const (
	slurmConf = "SlurmctldParameters=enable_configless\nMaxNodeCount=64\nMinJobAge=3600\nSlurmdTimeout=300\nKillWait=10\n"
	volume    = "/run/volume"
	limit     = native.Limit
	// nodes is how many there are.
	nodes = 14
)

// world is a cluster whose slurmctld runs under its agent, which follows a controller. Each case has nodes
// of its own.
type world struct {
	*native.Cluster
	controller *fakecontroller.Server
	gate       *native.Gate

	lock sync.Mutex
	log  []string
}

func newWorld(s settings) (*world, error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: nodes, SlurmConf: slurmConf})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: c}
	if w.controller, err = fakecontroller.Start(nil); err != nil {
		return nil, err
	}
	if w.gate, err = w.NewGate(); err != nil {
		return nil, err
	}
	files, err := c.Sources()
	if err != nil {
		return nil, err
	}
	if _, err := c.NewVolume(volume, files); err != nil {
		return nil, err
	}
	if err := w.begin(); err != nil {
		w.explain()
		return nil, err
	}
	return w, nil
}

// begin has all nodes Ready. The agents of the last two do not follow slurmctld's agent, so it knows
// of these only what slurmctld and the controller tell.
func (w *world) begin() error {
	environ, err := w.controller.Admit(w.Root, fakecontroller.Slurmctld)
	if err != nil {
		return err
	}
	if err := w.ControlBySlurmlet(volume, w.heard, append(environ, "SLURMLET_REPORT_INTERVAL=1s", "SLURMLET_LOG_LEVEL=debug")...); err != nil {
		return err
	}
	for i, n := range w.Nodes {
		var environ []string
		if i >= nodes-2 {
			environ = []string{"SLURMLET_AGENT_PORT=0"}
		}
		if err := w.Start(n, environ...); err != nil {
			return err
		}
	}
	for _, n := range w.Nodes {
		if err := n.AwaitReady(limit); err != nil {
			return err
		}
		if err := w.live(n, uidOf(n), true); err != nil {
			return err
		}
	}
	return nil
}

// live tells of a pod of slurmd's, without an address as long as it waits for a machine.
func (w *world) live(n *native.Node, uid string, addressed bool) error {
	var ip net.IP
	if addressed {
		ip = n.IP
	}
	return w.controller.Tell(wire.Peer{Name: n.Name, UID: uid, Role: "slurmd"}, ip)
}

// uidOf is the first pod's of a name.
func uidOf(n *native.Node) string { return "uid-" + n.Name }

func (w *world) heard(line string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.log = append(w.log, line)
}

// said counts the lines of slurmctld's agent with all of these texts.
func (w *world) said(texts ...string) (n int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, line := range w.log {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			n++
		}
	}
	return n
}

func (w *world) explain() {
	for _, ask := range []string{"scontrol show nodes --oneliner", "squeue --states=all"} {
		words := strings.Fields(ask)
		out, err := w.slurm(words[0], words[1:]...)
		fmt.Println(out, err)
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	fmt.Println(strings.Join(w.log, "\n"))
}

// slurm runs a command of Slurm's, and returns what it prints.
func (w *world) slurm(program string, args ...string) (string, error) {
	out, err := w.Command("/usr/bin/"+program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// record is a node's state, with its flags and its reason; empty for no record.
func (w *world) record(n *native.Node) string {
	out, err := w.slurm("scontrol", "--oneliner", "show", "node", n.Name)
	_, state, is := strings.Cut(out, " State=")
	if err != nil || !is {
		return ""
	}
	state, rest, _ := strings.Cut(state, " ")
	_, reason, _ := strings.Cut(rest, " Reason=")
	reason, _, _ = strings.Cut(reason, " [")
	return strings.TrimSpace(state + " " + reason)
}

// job is a job's state, and its comment.
func (w *world) job(id string) string {
	out, err := w.slurm("scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		return err.Error()
	}
	_, state, _ := strings.Cut(out, " JobState=")
	state, _, _ = strings.Cut(state, " ")
	_, comment, _ := strings.Cut(out, " AdminComment=")
	comment, _, _ = strings.Cut(comment, " OriginCluster=")
	return strings.TrimSpace(state + " " + comment)
}

// submit has a job run on a node until the gate opens.
func (w *world) submit(n *native.Node) (id string, err error) {
	if id, err = w.Submit(n.Name); err != nil {
		return "", err
	}
	return id, w.until("job "+id+" does not run", func() bool { return w.job(id) == "RUNNING" })
}

func (w *world) until(complaint string, good func() bool) error {
	return native.Within(limit, complaint, good)
}

// powerOff ends a node's processes at once, and waits until they have ended.
func (w *world) powerOff(n *native.Node) error {
	if err := unix.Kill(n.PID(), unix.SIGKILL); err != nil {
		return fmt.Errorf("cannot kill %s: %w", n.Name, err)
	}
	return w.until(n.Name+" does not end", n.Ended)
}

// powerOffAll does so for several. slurmctld's agent then knows that their agents do not come back;
// Kubernetes takes longer to find out.
func (w *world) powerOffAll(dead ...*native.Node) error {
	before, err := w.AgentStatus()
	if err != nil {
		return err
	}
	for _, n := range dead {
		if err := w.powerOff(n); err != nil {
			return err
		}
	}
	return w.until("slurmctld's agent takes agents for connected", func() bool {
		s, err := w.AgentStatus()
		return err == nil && s.Records != nil && s.Records.Connected == before.Records.Connected-len(dead)
	})
}

// replacement is a new machine with a node's name and address.
func replacement(n *native.Node) *native.Node {
	return &native.Node{
		Name: n.Name, IP: append(net.IP(nil), n.IP...),
		Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{}),
	}
}
