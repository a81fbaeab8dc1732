//go:build e2e

package queue

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/fakecontroller"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// slurmConf has an epilog of the site's beside slurmlet's. 0.8 of its limit are 20 s.
const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=10
MinJobAge=3600
KillWait=5
PrologFlags=Alloc
Prolog=site.sh
Prolog=slurmlet-prolog.sh
Epilog=slurmlet-epilog.sh
Epilog=site.sh
PrologEpilogTimeout=25
`

// site is the site's own prolog and epilog.
const site = "#!/bin/sh\necho \"$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURMD_NODENAME\" >>/srv/site\n"

const (
	user  = "alice"
	limit = native.Limit
)

// world is a cluster of two nodes and a login pod, which is a gateway.
type world struct {
	*native.Cluster
	server *fakecontroller.Server
	queue  *fakecontroller.Queue
	play   string
	login  *native.Node
	nodes  []*native.Node

	lock sync.Mutex
	log  []string
}

func newWorld(s settings) (*world, error) {
	cluster, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 3, SlurmConf: slurmConf})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: cluster, play: s.Case, login: cluster.Nodes[2], nodes: cluster.Nodes[:2]}
	w.login.Role = "login"
	for name, text := range map[string]string{"slurmlet-prolog.sh": s.Prolog, "slurmlet-epilog.sh": s.Epilog, "site.sh": site} {
		path := filepath.Join(w.Root, "etc/slurm", name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	if w.server, w.queue, err = fakecontroller.StartQueue(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *world) hear(line string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.log = append(w.log, line)
}

// begin has all pods Ready.
func (w *world) begin() error {
	if err := w.Control(w.hear); err != nil {
		return err
	}
	for _, n := range w.Nodes {
		uid, own := n.Name, []string{"SLURMLET_HOLDS=on"}
		if w.play == shared {
			own = append(own, "SLURMLET_CPU_LIMIT=2000")
		}
		if n == w.login {
			uid = fakecontroller.Login
			own = []string{
				"SLURMLET_GATEWAY_USERS=" + user + ",nobody", "SLURMLET_GATEWAY_MIN_UID=1000", "SLURMLET_SSH_HOST_KEYS=/srv/keys",
				"SLURMLET_SSH_AUTHORIZED_KEYS=/srv/authorized",
			}
		}
		environ, err := w.server.Admit(w.Root, uid)
		if err == nil {
			err = w.Start(n, append(environ, own...)...)
		}
		if err != nil {
			return err
		}
	}
	for _, n := range w.Nodes {
		if err := n.AwaitReady(limit); err != nil {
			return err
		}
	}
	return nil
}

// submission is an order for a job of two nodes, or of one.
func submission(group string, args ...string) wire.Order {
	return wire.Order{Kind: wire.Submit, User: user, Script: wire.HoldScript, Args: append([]string{
		"--comment=" + wire.GroupComment + group + " hpc/pod", "--job-name=pods", "--chdir=/", "--output=/dev/null", "--export=NIL", "--mem=10",
	}, args...)}
}

// granted submits a job, and waits until slurmctld has it run and all its nodes hold.
func (w *world) granted(o wire.Order, nodes ...string) (uint32, error) {
	job, err := w.queue.Done(o)
	if err != nil {
		return 0, err
	}
	seen := 0
	err = native.Within(limit, fmt.Sprintf("job %d does not run, or a node does not hold", job), func() bool {
		_, err := w.queue.Done(wire.Order{Kind: wire.Look, User: user, Job: job})
		j := w.queue.Job(job)
		good := err == nil && j.State == "RUNNING" && j.Reason == "" && len(j.Nodes) == len(nodes)
		for _, n := range nodes {
			good = good && slices.Contains(j.Nodes, n) && w.queue.Started(job, n) > 0
		}
		if good && scripts() > 0 {
			seen++ // once it listens to signals
		}
		return seen > 3
	})
	if err != nil {
		err = fmt.Errorf("%w: %+v", err, w.queue.Job(job))
	}
	for _, n := range nodes {
		w.queue.SetPods(job, n, fmt.Sprintf("hpc/pod-%d-%s", job, n))
	}
	return job, err
}

// scripts counts the batch scripts of jobs of pods.
func scripts() (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is right
	for _, path := range all {
		if text, _ := os.ReadFile(path); string(text) == "hold\n" { // one that has ended has none
			n++
		}
	}
	return n
}

// becomes waits until the gateway reports a job in a state.
func (w *world) becomes(job uint32, state string) error {
	err := native.Within(limit, fmt.Sprintf("job %d is not %s", job, state), func() bool {
		_, err := w.queue.Done(wire.Order{Kind: wire.Look, User: user, Job: job})
		return err == nil && w.queue.Job(job).State == state
	})
	if err != nil {
		return fmt.Errorf("%w: %+v", err, w.queue.Job(job))
	}
	return nil
}

// node is how sinfo shows a node.
func (w *world) node(name string) (state, reason string) {
	out, err := w.Command("/usr/bin/sinfo", "--noheader", "--Node", "--nodes="+name, "--partition=all", "--format=%T|%E").Output()
	if err != nil {
		return err.Error(), ""
	}
	state, reason, _ = strings.Cut(strings.TrimSpace(string(out)), "|")
	return state, reason
}

// nodeIs waits for a node's state.
func (w *world) nodeIs(name, want string) error {
	var state, reason string
	err := native.Within(limit, name+" is not "+want, func() bool {
		state, reason = w.node(name)
		return state == want
	})
	if err != nil {
		return fmt.Errorf("%w: %s %s", err, state, reason)
	}
	return nil
}

// stays looks for some time that something is the case.
func stays(d time.Duration, complaint string, is func() bool) error {
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(d / 20) {
		if !is() {
			return fmt.Errorf("%s", complaint)
		}
	}
	return nil
}

// ordinary submits a job of no pods.
func (w *world) ordinary(node string) (string, error) {
	out, err := w.Command("/usr/bin/sbatch", "--parsable", "--nodelist="+node, "--mem=10", "--output=/dev/null", "--wrap=true").Output()
	return strings.TrimSpace(string(out)), err
}

func (w *world) stateOf(job string) string {
	out, _ := w.Command("/usr/bin/squeue", "--noheader", "--states=all", "--jobs="+job, "--format=%T").Output()
	return strings.TrimSpace(string(out))
}

// exitOf is a job's exit status and the signal that ended it.
func (w *world) exitOf(job uint32) string {
	out, _ := w.Command("/usr/bin/scontrol", "show", "job", strconv.FormatUint(uint64(job), 10)).Output()
	_, rest, _ := strings.Cut(string(out), "ExitCode=")
	code, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(code)
}

// in runs a command in a pod.
func (w *world) in(n *native.Node, args ...string) ([]byte, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(n.PID()), "--mount", "--net", "--pid", "--root", "--wd"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd.Output()
}

func (w *world) status(n *native.Node) (s agent.Status, text string, err error) {
	out, err := w.in(n, "slurmlet", "status", "-o", "json")
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err == nil {
		out, err = w.in(n, "slurmlet", "status")
	}
	return s, string(out), err
}

func (w *world) explain() {
	w.lock.Lock()
	fmt.Println(strings.Join(w.log[max(0, len(w.log)-30):], "\n"))
	w.lock.Unlock()
	for _, n := range w.Nodes {
		if n.Started() {
			log := n.Log()
			fmt.Printf("%s:\n%s\n", n.Name, strings.Join(log[max(0, len(log)-40):], "\n"))
		}
	}
	site, _ := os.ReadFile(filepath.Join(w.Root, "srv/site"))
	fmt.Println(string(site))
}
