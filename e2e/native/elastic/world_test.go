//go:build e2e

package elastic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/fakecontroller"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/podmaker"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
)

const (
	volume     = "/run/volume"
	setsVolume = "/run/sets"
	limit      = native.Limit
)

// baseConf is for all stories. Jobs stay until they have been looked at, and a slurmd that is silent is soon DOWN.
const baseConf = `MaxNodeCount=256
MinJobAge=3600
SlurmdTimeout=30
`

// world is a cluster of slurmctld under its agent, and of pods that come and go. No machine knows another one's name
// but by the controller.
type world struct {
	*native.Cluster
	settings   settings
	controller *controller
	pods       *pods
	maker      *podmaker.Maker
	stop       context.CancelFunc
	stopped    chan struct{}
	began      time.Time
	environ    []string // slurmctld's agent's
	edits      int

	lock sync.Mutex
	log  []string
}

func newWorld(s settings, of story) (*world, error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, SlurmConf: baseConf + of.slurmConf})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: c, settings: s, began: time.Now(), stopped: make(chan struct{})}
	err = errors.Join(
		os.WriteFile(filepath.Join(c.Root, "etc/hosts"), []byte("127.0.0.1 localhost\n"+native.Address+" "+native.Host+"\n"), 0o644),
		os.WriteFile(filepath.Join(c.Root, "etc/hosts.pod"), []byte("127.0.0.1 localhost\n"), 0o644),
	)
	if err != nil {
		return nil, err
	}
	if w.controller, err = newController(c.Root); err != nil {
		return nil, err
	}
	w.pods = newPods(w)
	wanted := w.wanted
	if of.sets != nil {
		wanted = w.controller.wanted
	}
	w.maker = podmaker.New(w.pods, wanted, w.note)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() {
		defer close(w.stopped)
		w.maker.Run(ctx)
	}()
	if err := w.begin(of.sets); err != nil {
		w.explain()
		return nil, err
	}
	return w, nil
}

// begin starts slurmctld with elastic sets.
func (w *world) begin(sets map[string]string) error {
	files, err := w.Sources()
	if err != nil {
		return err
	}
	if _, err := w.NewVolume(volume, files); err != nil {
		return err
	}
	if sets != nil {
		if err := errors.Join(os.Mkdir(filepath.Join(w.Root, setsVolume), 0o755), w.edit(sets)); err != nil {
			return err
		}
		w.environ = append(w.environ, "SLURMLET_ELASTIC_SETS="+setsVolume)
	}
	if err := w.controller.tell(native.Host, fakecontroller.Slurmctld, "slurmctld", net.ParseIP(native.Address), false); err != nil {
		return err
	}
	if err := w.control(); err != nil || sets == nil {
		return err
	}
	return w.until("the sets have no records", func() bool {
		s, err := w.AgentStatus()
		return err == nil && s.Elastic != nil && len(s.Elastic.Sets) == len(sets) && !slices.ContainsFunc(s.Elastic.Sets, func(s elastic.SetStatus) bool { return s.Records == 0 })
	})
}

// control starts slurmctld.
func (w *world) control() error {
	environ, err := w.controller.admit(fakecontroller.Slurmctld)
	if err != nil {
		return err
	}
	environ = append(environ, w.environ...)
	return w.ControlBySlurmlet(volume, w.heard, append(environ, "SLURMLET_REPORT_INTERVAL=1s", "SLURMLET_LOG_LEVEL=debug")...)
}

// edit has the files of the sets be these, as the kubelet writes a ConfigMap: ..data is swapped.
func (w *world) edit(sets map[string]string) error {
	dir := filepath.Join(w.Root, setsVolume)
	w.edits++
	next := fmt.Sprintf("..%d", w.edits)
	err := os.Mkdir(filepath.Join(dir, next), 0o755)
	for name, text := range sets {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, next, name+".json"), []byte(text), 0o644))
		if err := os.Symlink(filepath.Join("..data", name+".json"), filepath.Join(dir, name+".json")); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := errors.Join(err, os.Symlink(next, filepath.Join(dir, "..data_tmp")), os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))); err != nil {
		return err
	}
	links, err := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, link := range links {
		if _, is := sets[strings.TrimSuffix(filepath.Base(link), ".json")]; !is {
			err = errors.Join(err, os.Remove(link))
		}
	}
	return err
}

// end ends all.
func (w *world) end() error {
	w.stop()
	<-w.stopped
	return w.Close()
}

// wanted asks slurmctld.
func (w *world) wanted(context.Context) (podmaker.Wanted, error) {
	nodes, err := w.nodes()
	if err != nil {
		return nil, err
	}
	wanted := podmaker.Wanted{}
	for name, n := range nodes {
		if n.is("CLOUD") {
			wanted[name] = !n.is("POWERED_DOWN") && !n.is("POWERING_DOWN")
		}
	}
	return wanted, nil
}

// record is a node as slurmctld has it.
type record struct {
	Name   string   `json:"name"`
	State  []string `json:"state"`
	Reason string   `json:"reason"`
	CPUs   int      `json:"cpus"`
	Memory int      `json:"real_memory"`
	Disk   int      `json:"temporary_disk"`
	Weight int      `json:"weight"`
	Has    []string `json:"features"`
}

func (r record) is(flag string) bool { return slices.Contains(r.State, flag) }

// nodes are all records, by name.
func (w *world) nodes() (map[string]record, error) {
	var answer struct{ Nodes []record }
	if err := w.Ask(&answer, "/usr/bin/scontrol", "show", "nodes"); err != nil {
		return nil, err
	}
	all := map[string]record{}
	for _, n := range answer.Nodes {
		all[n.Name] = n
	}
	return all, nil
}

// untilNodes waits until all nodes named are so; the last look is in the failure.
func (w *world) untilNodes(complaint string, is func(record) bool, names ...string) error {
	var last map[string]record
	err := native.Within(limit, complaint, func() bool {
		nodes, err := w.nodes()
		if err != nil {
			return false
		}
		last = nodes
		return !slices.ContainsFunc(names, func(name string) bool { return !is(nodes[name]) })
	})
	if err != nil {
		for _, name := range names {
			err = fmt.Errorf("%w; %s is %s %s", err, name, strings.Join(last[name].State, "+"), last[name].Reason)
		}
	}
	return err
}

// off: the node waits for a job, and has no pod.
func off(r record) bool { return r.is("POWERED_DOWN") && r.is("IDLE") && !r.is("DRAIN") }

// up: the node takes jobs.
func up(r record) bool {
	return r.Name != "" && !slices.ContainsFunc(r.State, func(flag string) bool {
		return slices.Contains([]string{"DOWN", "DRAIN", "NOT_RESPONDING", "INVALID_REG", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"}, flag)
	})
}

// untilPods waits until there are pods of these names alone.
func (w *world) untilPods(names ...string) error {
	var last []string
	err := native.Within(limit, "there are other pods than "+strings.Join(names, " "), func() bool {
		last = slices.Sorted(maps.Keys(w.maker.UIDs()))
		return slices.Equal(last, names)
	})
	if err != nil {
		err = fmt.Errorf("%w: %v", err, w.maker.UIDs())
	}
	return err
}

// slurm runs a command of Slurm's, and returns what it prints.
func (w *world) slurm(program string, args ...string) (string, error) {
	out, err := w.Command("/usr/bin/"+program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// batch submits a job that runs until it is cancelled.
func (w *world) batch(args ...string) (id string, err error) {
	return w.slurm("sbatch", append([]string{"--parsable", "--mem=10", "--output=/dev/null", "--chdir=/", "--wrap=exec sleep infinity"}, args...)...)
}

// job is a job's state.
func (w *world) job(id string) string {
	out, err := w.slurm("scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		return err.Error()
	}
	_, state, _ := strings.Cut(out, " JobState=")
	state, _, _ = strings.Cut(state, " ")
	return state
}

func (w *world) untilJob(id, state string) error {
	if err := w.until(fmt.Sprintf("job %s is not %s", id, state), func() bool { return w.job(id) == state }); err != nil {
		return fmt.Errorf("%w: it is %s", err, w.job(id))
	}
	return nil
}

func (w *world) until(complaint string, good func() bool) error {
	return native.Within(limit, complaint, good)
}

func (w *world) heard(line string) { w.note("%s", line) }

// note is a line of the story, for an explanation of what fails.
func (w *world) note(format string, args ...any) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.log = append(w.log, fmt.Sprintf("%6.2f "+format, append([]any{time.Since(w.began).Seconds()}, args...)...))
}

func (w *world) explain() {
	fmt.Printf("=== %s, Slurm %s\n", w.settings.Story, w.settings.Version)
	for _, ask := range []string{"scontrol show nodes --oneliner", "squeue --states=all"} {
		words := strings.Fields(ask)
		out, err := w.slurm(words[0], words[1:]...)
		fmt.Println(out, err)
	}
	w.pods.lock.Lock()
	for name, pod := range w.pods.pods {
		said := pod.node.Log()
		fmt.Printf("--- %s\n%s\n", name, strings.Join(said[max(0, len(said)-40):], "\n"))
	}
	w.pods.lock.Unlock()
	w.lock.Lock()
	defer w.lock.Unlock()
	fmt.Println(strings.Join(w.log, "\n"))
}
