//go:build e2e

package questions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// slurmConf keeps the jobs until they have been looked at.
const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=4096
MinJobAge=3600
GresTypes=gpu
`

const (
	volume = "/run/volume"
	// asked is what the agents have asked, a line each: the machine's name and the command.
	asked = "/srv/asked"
	// podInfo is where the last node reads its CPU limit.
	podInfo = "/srv/podinfo"
	limit   = native.Limit
)

// life is a cluster whose nodes' agents live.
type life struct {
	*native.Cluster
	volume *native.Volume
	files  map[string][]byte
	lock   sync.Mutex
	log    []string
	// What is looked at began with these counts of slurmctld's and behind so much of asked.
	before map[string]int
	behind int
	// uncounted of these questions were asked before slurmctld began to count anew.
	uncounted large
}

func begin(s settings) (*life, error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 6, SlurmConf: slurmConf})
	if err != nil {
		return nil, err
	}
	l := &life{Cluster: c}
	gres := "NodeName=odd-gpu Name=gpu Type=t File=/dev/null,/dev/zero Cores=0\n"
	err = errors.Join(l.nameRecords(s.Records), l.listen("scontrol"), l.listen("sinfo"), l.listen("squeue"), os.WriteFile(filepath.Join(c.Root, "etc/slurm/gres.conf"), []byte(gres), 0o644))
	if err != nil {
		return nil, err
	}
	if l.files, err = c.Sources(); err != nil {
		return nil, err
	}
	l.files["gres.conf"] = []byte(gres)
	if l.volume, err = c.NewVolume(volume, l.files); err != nil {
		return nil, err
	}
	if err := l.control(); err != nil {
		return nil, err
	}
	return l, l.scontrol("create", fmt.Sprintf("nodename=x-[1-%d]", s.Records), "cpus=2", "realmemory=1000", "state=cloud")
}

// nameRecords: 24.11 looks for the address of each record when it reconfigures, and tries eleven
// seconds for a name that is nobody's. At the address nobody listens on slurmd's port, and whoever
// connects is refused at once.
func (l *life) nameRecords(count int) error {
	var hosts strings.Builder
	for i := range count {
		fmt.Fprintf(&hosts, "%s x-%d\n", native.Address, i+1)
	}
	hosts.WriteString(native.Address + " odd-gpu")
	for i := range 7 {
		fmt.Fprintf(&hosts, " odd-%d", i)
	}
	hosts.WriteString("\n")
	file, err := os.OpenFile(filepath.Join(l.Root, "etc/hosts"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(hosts.String())
		err = errors.Join(err, file.Close())
	}
	return err
}

// listen puts a program in the place of one of Slurm's that writes down what it is asked.
func (l *life) listen(program string) error {
	path := filepath.Join(l.Root, "usr/bin", program)
	script := fmt.Sprintf("#!/bin/sh\nread -r host < /proc/sys/kernel/hostname\necho \"$host %s $*\" >> %s\nexec %s.slurm \"$@\"\n", program, asked, "/usr/bin/"+program)
	if err := errors.Join(os.Rename(path, path+".slurm"), os.WriteFile(path, []byte(script), 0o755)); err != nil {
		return fmt.Errorf("cannot listen to %s: %w", program, err)
	}
	file := filepath.Join(l.Root, asked)
	return errors.Join(os.WriteFile(file, nil, 0o666), os.Chmod(file, 0o666))
}

func (l *life) control() error {
	return l.ControlBySlurmlet(volume, func(line string) {
		l.lock.Lock()
		defer l.lock.Unlock()
		l.log = append(l.log, line)
	}, "SLURMLET_PREFLIGHT=parse")
}

// scontrol asks on slurmctld's machine, as slurmctld's agent does.
func (l *life) scontrol(args ...string) error {
	if out, err := l.Command("/usr/bin/scontrol", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("scontrol %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// large is how often slurmctld's agent, or the test, has asked for all nodes and for all jobs.
type large struct{ nodes, jobs int }

// questions are what has been asked on machines other than slurmctld's since the last look, and what has been asked
// of all nodes and jobs on slurmctld's.
func (l *life) questions() (nodes []string, ofAll large, err error) {
	text, err := os.ReadFile(filepath.Join(l.Root, asked))
	if err != nil {
		return nil, large{}, fmt.Errorf("cannot tell what was asked: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		host, command, _ := strings.Cut(line, " ")
		switch {
		case host != native.Host:
		case strings.HasPrefix(command, "scontrol show node"):
			ofAll.nodes++
		case strings.HasPrefix(command, "squeue "):
			ofAll.jobs++
		}
	}
	for line := range strings.Lines(string(text[l.behind:])) {
		if host, _, _ := strings.Cut(line, " "); host != native.Host {
			nodes = append(nodes, line)
		}
	}
	return nodes, ofAll, nil
}

// look has small judge what comes from now on. It resets nothing, because slurmctld counts a request only when it has
// answered it: what was asked before would be counted after.
func (l *life) look() error {
	counts, err := l.RPCs()
	if err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(l.Root, asked))
	if err != nil {
		return fmt.Errorf("cannot tell what was asked: %w", err)
	}
	l.before, l.behind = counts, int(info.Size())
	return nil
}

// anew: slurmctld counts from 0 from now on.
func (l *life) anew() error {
	if err := l.look(); err != nil {
		return err
	}
	_, ofAll, err := l.questions()
	l.before, l.uncounted = nil, ofAll
	return err
}

// small: no agent of a node's has asked for all nodes or all jobs. As often as slurmctld sent
// all nodes, its own agent or the test has asked for them: each writes that down before it asks.
func (l *life) small() error {
	counts, err := l.RPCs()
	if err != nil {
		return err
	}
	nodes, ofAll, err := l.questions()
	if err != nil {
		return err
	}
	ofAll.nodes, ofAll.jobs = ofAll.nodes-l.uncounted.nodes, ofAll.jobs-l.uncounted.jobs
	since := maps.Clone(counts)
	for name, count := range l.before {
		since[name] -= count
	}
	maps.DeleteFunc(since, func(_ string, count int) bool { return count == 0 })
	if counts["REQUEST_NODE_INFO"] > ofAll.nodes || counts["REQUEST_JOB_INFO"] > ofAll.jobs || since["REQUEST_NODE_INFO_SINGLE"] == 0 {
		return fmt.Errorf("on slurmctld's machine all nodes were asked for %d times and all jobs %d times, and slurmctld counts %v; since the last look %v; nodes have asked:\n%s",
			ofAll.nodes, ofAll.jobs, counts, since, strings.Join(nodes, ""))
	}
	fmt.Println("slurmctld has had", since, "- in all", counts["REQUEST_NODE_INFO"], "times all nodes, asked for", ofAll.nodes, "times on its machine")
	return nil
}

// compare: what sinfo tells of nodes in odd states is what scontrol tells.
func (l *life) compare() error {
	odd := [][]string{
		{"cpus=8", "sockets=2", "corespersocket=2", "threadspercore=2", "cpuspeclist=0-3", "features=b,a", "weight=7"},
		{"cpus=8", "sockets=2", "corespersocket=2", "threadspercore=2", "corespeccount=1"},
		{"cpus=8", "sockets=2", "corespersocket=2", "threadspercore=2", "cpuspeclist=1"},
		{"cpus=2"},
		{"cpus=2"},
		{"cpus=2", "tmpdisk=1234"},
		{"cpus=2"},
	}
	names := []string{"odd-gpu", "x-1"}
	err := l.scontrol("create", "nodename=odd-gpu", "cpus=2", "realmemory=1000", "gres=gpu:t:2", "state=cloud")
	for i, settings := range odd {
		name := fmt.Sprintf("odd-%d", i)
		names = append(names, name)
		err = errors.Join(err, l.scontrol(append([]string{"create", "nodename=" + name, "realmemory=1000", "state=cloud"}, settings...)...))
	}
	err = errors.Join(err,
		l.scontrol("update", "nodename=odd-3", "state=drain", `reason=slurmlet: "a, b"`),
		l.scontrol("update", "nodename=odd-4", "state=down", "reason=it's broken"),
		l.scontrol("update", "nodename=odd-5", "state=fail", "reason=x"),
		l.scontrol("update", "nodename=odd-6", "extra={\"a\": 1}"),
	)
	if err != nil {
		return err
	}
	s := slurm.Scontrol{Path: "/scontrol", Sinfo: "/sinfo", Env: os.Environ()}
	for _, program := range []string{"scontrol", "sinfo"} {
		script := fmt.Sprintf("#!/bin/sh\necho \"%s %s $*\" >> %s\nexec chroot %s /usr/bin/%s.slurm \"$@\"\n", native.Host, program, filepath.Join(l.Root, asked), l.Root, program)
		at := filepath.Join(native.Scratch, program)
		if err := os.WriteFile(at, []byte(script), 0o755); err != nil {
			return fmt.Errorf("cannot lay out %s: %w", program, err)
		}
	}
	s.Path, s.Sinfo = filepath.Join(native.Scratch, s.Path), filepath.Join(native.Scratch, s.Sinfo)
	for _, name := range names {
		brief, err := s.Glance(context.Background(), name)
		whole, otherwise := s.WholeNode(context.Background(), name)
		if err = errors.Join(err, otherwise); err != nil {
			return err
		}
		if brief == nil || whole == nil {
			return fmt.Errorf("%s is not shown: %v, %v", name, brief, whole)
		}
		whole.Address, whole.Topology, whole.SlurmdStartAt = "", "", 0
		if len(whole.Features) == 0 {
			whole.Features = nil
		}
		if !reflect.DeepEqual(brief, whole) {
			return fmt.Errorf("%s: sinfo tells %+v and %+v, scontrol %+v and %+v", name, *brief, *brief.NodeDetail, *whole, *whole.NodeDetail)
		}
	}
	none, err := s.Node(context.Background(), "nosuch")
	if err != nil || none != nil {
		return fmt.Errorf("a node that does not exist is %v, %w", none, err)
	}
	return nil
}

func (l *life) start() error {
	if err := l.look(); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		grace := "10m"
		if n == l.Nodes[2] {
			grace = "30s" // its job is requeued
		}
		cpus, dir := "1000", "/etc/podinfo"
		if n == l.Nodes[4] {
			cpus = "2000" // a job of one leaves it MIXED
		}
		if n == l.Nodes[5] {
			dir = podInfo
			if err := l.limit("2000"); err != nil {
				return err
			}
		}
		if err := l.Start(n, "SLURMLET_GRACE_PERIOD="+grace, "SLURMLET_CPU_LIMIT="+cpus, "SLURMLET_PODINFO_DIR="+dir); err != nil {
			return err
		}
	}
	for _, n := range l.Nodes {
		if err := n.AwaitReady(limit); err != nil {
			return err
		}
	}
	return l.small()
}

// edit: all slurmds hand over, and are Ready again. slurmctld becomes another process by a reconfigure.
func (l *life) edit() error {
	before, living := map[string]int{}, slices.DeleteFunc(slices.Clone(l.Nodes), (*native.Node).Ended)
	for _, n := range living {
		before[n.Name] = readies(n)
	}
	if err := l.anew(); err != nil {
		return err
	}
	files := maps.Clone(l.files)
	files["slurm.conf"] = append(slices.Clip(files["slurm.conf"]), "MailDomain=second\n"...)
	if _, err := l.volume.Swap(files); err != nil {
		return err
	}
	for _, n := range living {
		if err := native.Within(limit, n.Name+" is not Ready after the edit", func() bool { return readies(n) > before[n.Name] }); err != nil {
			return err
		}
	}
	return l.small()
}

func readies(n *native.Node) (count int) {
	for _, line := range n.Log() {
		if strings.Contains(line, `"state":"Ready"`) {
			count++
		}
	}
	return count
}

// restart: the agent of the node that is left looks whether slurmctld counts jobs on it that are
// not there. 24.11 asks the other records to register then, through this node's slurmd, which
// does not end in time any more.
func (l *life) restart() error {
	if err := l.anew(); err != nil {
		return err
	}
	if err := l.Slurmctld.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop slurmctld: %w", err)
	}
	_ = l.Slurmctld.Wait() // its status says nothing about the nodes
	if err := l.control(); err != nil {
		return err
	}
	left := l.Nodes[1].Name
	err := native.Within(limit, left+" does not look for lost jobs", func() bool {
		counts, err := l.RPCs()
		return err == nil && counts["REQUEST_NODE_INFO_SINGLE"] > 0
	})
	if err != nil {
		return err
	}
	return l.small()
}

func (l *life) end() error {
	gate, err := l.NewGate()
	if err != nil {
		return err
	}
	ids := map[string]string{}
	for _, n := range []*native.Node{l.Nodes[0], l.Nodes[2]} {
		if ids[n.Name], err = l.Submit(n.Name); err != nil {
			return err
		}
		if err := native.Within(limit, "no step runs on "+n.Name, func() bool { return l.runs(n) }); err != nil {
			return err
		}
	}
	if err := l.look(); err != nil {
		return err
	}
	ending := []*native.Node{l.Nodes[3], l.Nodes[2], l.Nodes[0]}
	for _, n := range ending {
		if err := n.Terminate(); err != nil {
			return err
		}
	}
	for i, n := range ending {
		if i == 2 {
			if err := gate.Open(); err != nil {
				return fmt.Errorf("cannot open the gate: %w", err)
			}
		}
		if err := exits(n, 0); err != nil {
			return err
		}
	}
	if err := l.small(); err != nil {
		return err
	}
	for name, want := range map[string]string{"n1": "COMPLETED", "n3": "PENDING"} {
		var answer struct {
			Jobs []struct {
				State []string `json:"job_state"`
			} `json:"jobs"`
		}
		if err := l.Ask(&answer, "/usr/bin/scontrol.slurm", "show", "job", ids[name]); err != nil {
			return err
		}
		if len(answer.Jobs) != 1 || !slices.Contains(answer.Jobs[0].State, want) {
			return fmt.Errorf("the job of %s is %v, not %s", name, answer.Jobs, want)
		}
	}
	return nil
}

// slurmlet runs a command of the agent's in the pod of a node.
func slurmlet(n *native.Node, args ...string) error {
	command := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(n.PID()), "--mount", "--root", "slurmlet"}, args...)...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("slurmlet %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// smallFor: a node has not asked for all nodes.
func (l *life) smallFor(n *native.Node) error {
	nodes, _, err := l.questions()
	if err != nil {
		return err
	}
	for _, line := range nodes {
		if host, command, _ := strings.Cut(line, " "); host == n.Name && strings.HasPrefix(command, "scontrol show node ") {
			return fmt.Errorf("%s has asked for all nodes; nodes have asked:\n%s%s", n.Name, strings.Join(nodes, ""), strings.Join(direct(n), "\n"))
		}
	}
	return l.small()
}

// direct are the lines in which a node's agent says that it asks slurmctld itself, and why.
func direct(n *native.Node) (lines []string) {
	for _, line := range n.Log() {
		if strings.Contains(line, `"asks slurmctld itself"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// runs: the batch step's socket is in the node's spool directory.
func (l *life) runs(n *native.Node) bool {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/run/spool/%s_*.4294967291", n.PID(), n.Name))
	return len(found) > 0
}

func (l *life) explain() {
	l.lock.Lock()
	defer l.lock.Unlock()
	tell := func(who string, log []string) {
		for _, line := range log[max(0, len(log)-60):] {
			fmt.Println(who+":", line)
		}
	}
	tell("slurmctld", l.log)
	for _, n := range l.Nodes {
		tell(n.Name, n.Log())
	}
}

// exits waits for the end of a node's agent.
func exits(n *native.Node, status int) error {
	select {
	case <-n.Exited:
	case <-time.After(limit):
		return fmt.Errorf("%s has not exited within %v", n.Name, limit)
	}
	if n.Status != status {
		return fmt.Errorf("%s has exited with %d, not %d", n.Name, n.Status, status)
	}
	return nil
}
