//go:build e2e

package monitoring

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=16
Licenses=solver:2
SchedulerParameters=default_queue_depth=1000,batch_sched_delay=0,requeue_delay=5,requeue_on_resume_failure
ResumeTimeout=5
NodeSet=cpu Feature=cpu
PartitionName=cpu Nodes=cpu State=UP
PartitionName=night Nodes=ALL State=DOWN
PartitionName=crowd Nodes=ALL OverSubscribe=FORCE:1000 PriorityTier=2
PartitionName=short Nodes=ALL MaxTime=1 State=UP
`

// annotations are those of the nodes' pods, as the chart has them for the node set cpu.
const annotations = "slurmlet.dev/features=\"cpu\"\n"

// elasticSets are a node whose pod nobody makes, and a file that holds no set.
var elasticSets = map[string]string{
	"lost.json":  `{"nodes":"lost-0","cpuLimit":"1","memoryLimit":"1Gi"}`,
	"wrong.json": `{"nodes":"wrong-0"}`,
}

// cluster is one in which there is something to tell of.
type cluster struct {
	*native.Cluster
	volume *native.Volume
	files  map[string][]byte
	// seen waits until Prometheus has scraped a slurmctld's agent that began after some time.
	seen func(time.Time) error
	lock sync.Mutex
	log  []string

	// What follows is that of slowTroubles: who accounts, since when machines are wanted, the jobs that wait, and what
	// ends slurmctld's lack of a processor.
	slurmdbd  *native.Node
	wanted    time.Time
	array     string
	feed, fed chan struct{}
}

// The node that somebody drains, the one that Slurm would drain, the one whose pod is deleted under a job, the one that
// hundreds of jobs want, the one whose pod has a Secret of its own, and the login pod. The last two begin late.
const (
	drained = 1
	faulty  = 2
	deleted = 3
	crowded = 4
	odd     = 5
	login   = 6
)

func newCluster(s settings) (*cluster, error) {
	c, err := makeCluster(s, native.Options{Nodes: 7, SlurmConf: slurmConf})
	if err != nil {
		return nil, err
	}
	return c, c.writeElasticSets("127.0.0.9 lost-0\n", elasticSets)
}

func makeCluster(s settings, o native.Options) (*cluster, error) {
	o.Lower, o.Slurmlet = s.Root, s.Slurmlet
	made, err := native.NewCluster(o)
	if err != nil {
		return nil, err
	}
	c := &cluster{Cluster: made, feed: make(chan struct{}), fed: make(chan struct{})}
	podinfo := filepath.Join(c.Root, "etc/podinfo")
	if err := errors.Join(os.Mkdir(podinfo, 0o755), os.WriteFile(filepath.Join(podinfo, "annotations"), []byte(annotations), 0o644)); err != nil {
		return nil, err
	}
	if c.files, err = c.Sources(); err != nil {
		return nil, err
	}
	c.volume, err = c.NewVolume("/run/volume", c.files)
	return c, err
}

func (c *cluster) control() error {
	return c.ControlBySlurmlet("/run/volume", c.hear, "SLURMLET_PREFLIGHT=parse", "SLURMLET_CLUSTER_INTERVAL=1s", "SLURMLET_METRICS_USERS=10", "SLURMLET_ELASTIC_SETS=/etc/sets")
}

// writeElasticSets makes slurmctld know further names, too: it looks for one that it does not know for seconds, and
// answers nobody.
func (c *cluster) writeElasticSets(names string, sets map[string]string) error {
	hosts, err := os.OpenFile(filepath.Join(c.Root, "etc/hosts"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = hosts.WriteString(names)
	dir := filepath.Join(c.Root, "etc/sets")
	err = errors.Join(err, hosts.Close(), os.Mkdir(dir, 0o755))
	for name, text := range sets {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return err
}

func (c *cluster) hear(line string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.log = append(c.log, line)
}

// start has nodes Ready.
func (c *cluster) start() error {
	for i, n := range c.Nodes[:odd] {
		environ := []string{"SLURMLET_GRACE_PERIOD=10m"}
		if i == crowded {
			environ = append(environ, "SLURMLET_PODINFO_DIR=/srv/none", "SLURMLET_MEMORY_LIMIT=1Gi")
		}
		if err := c.Start(n, environ...); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes[:odd] {
		if err := n.AwaitReady(time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// populate: jobs that run and wait, a node that is drained, a reservation.
func (c *cluster) populate() error {
	for _, args := range [][]string{
		sbatch("--nodelist="+c.Nodes[0].Name, "--licenses=solver:2", "--no-requeue"),
		sbatch("--nodelist=" + c.Nodes[deleted].Name),
		sbatch("--licenses=solver:1"),
		sbatch("--hold"),
		sbatch("--partition=night"),
		sbatch("--partition=cpu", "--nodes=4"),
		sbatch("--partition=cpu", "--hold"),
		sbatch("--partition=short", "--time=10"),
		sbatch("--partition=short", "--time=1", "--nodelist=lost-0"),
		sbatch("--nodes=4"), // two of the four are going to be drained
		{"/usr/bin/scontrol", "create", "reservation", "reservationname=r", "starttime=now+1day", "duration=60", "users=root", "nodes=" + c.Nodes[drained].Name},
		{"/usr/bin/scontrol", "update", "nodename=" + c.Nodes[drained].Name, "state=drain", "reason=a disk fails"},
		{"/usr/bin/scontrol", "update", "nodename=" + c.Nodes[faulty].Name, "state=drain", "reason=Kill task failed"},
	} {
		if err := c.run(args...); err != nil {
			return err
		}
	}
	return native.Within(native.Limit, "the jobs do not run", func() bool {
		out, err := c.Command("/usr/bin/squeue", "--noheader", "--states=RUNNING").Output()
		return err == nil && strings.Count(string(out), "\n") == 2
	})
}

// sbatch submits a job that runs until the cluster ends.
func sbatch(options ...string) []string {
	return append([]string{"/usr/bin/sbatch", "--mem=10", "--output=/dev/null", "--wrap=sleep 1000"}, options...)
}

// edit puts a line before slurm.conf, and waits until the agent says what became of it. Nodes may take half a minute.
func (c *cluster) edit(line, outcome string) error {
	c.lock.Lock()
	before := len(c.log)
	c.lock.Unlock()
	files := maps.Clone(c.files)
	files["slurm.conf"] = append([]byte(line+"\n"), files["slurm.conf"]...)
	if _, err := c.volume.Swap(files); err != nil {
		return err
	}
	return native.Within(time.Minute, "the agent does not say: "+outcome, func() bool {
		c.lock.Lock()
		defer c.lock.Unlock()
		return strings.Contains(strings.Join(c.log[before:], "\n"), outcome)
	})
}

// edits: one that is taken, and one that is refused. No job waits for a node meanwhile: slurmctld 24.11.5 may hang
// if it is to reconfigure just as PrologSlurmctld begins (slurmscriptd_flush).
func (c *cluster) edits() error {
	if err := c.edit("MailDomain=second", "the configuration is live"); err != nil {
		return err
	}
	return c.edit("KilWait=5", "the configuration is refused")
}

// deletePod: the pod waits for its job.
func (c *cluster) deletePod() error { return c.Nodes[deleted].Terminate() }

// demand is how Slurm's commands say that the partition cpu stands, of which all nodes are.
func (c *cluster) demand() (d demand, err error) {
	nodes, err := c.Command("/usr/bin/scontrol", "--oneliner", "show", "nodes").Output()
	if err != nil {
		return d, err
	}
	jobs, err := c.Command("/usr/bin/squeue", "--noheader", "--array", "--partition=cpu", "--states=PENDING", "--Format=Reason").Output()
	d.alloc, d.mixed = strings.Count(string(nodes), " State=ALLOCATED"), strings.Count(string(nodes), " State=MIXED")
	d.pending, d.held = strings.Count(string(jobs), "\n"), strings.Count(string(jobs), "JobHeld")
	return d, err
}

func (c *cluster) run(args ...string) error {
	if out, err := c.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (c *cluster) explained(err error) error {
	if err == nil {
		return nil
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	fmt.Println("slurmctld's agent:\n" + strings.Join(c.log[max(0, len(c.log)-20):], "\n"))
	return err
}

func inside(s settings) error {
	if s.Slow {
		return insideSlow(s)
	}
	began := time.Now()
	c, err := newCluster(s)
	if err != nil {
		return err
	}
	p, err := startPrometheus(s, c, c.Nodes[:odd]...)
	if err != nil {
		return err
	}
	for _, act := range []func() error{p.missesAll, p.serveRecorded, c.control, c.start, c.edits, c.populate, c.deletePod, p.answersAll, p.alertsAreRight, p.autoscales, p.fireAll} {
		if err = act(); err != nil {
			break
		}
	}
	if err == nil {
		fmt.Printf("Slurm %s: it took %v\n", s.Version, time.Since(began).Round(time.Second))
	}
	return errors.Join(c.explained(err), c.Close())
}
