//go:build e2e

package monitoring

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// slowConf has backfill work for minutes: by default it ends after half a minute, and its alert cannot fire.
const slowConf = `SlurmctldParameters=enable_configless
MaxNodeCount=16
MaxArraySize=2001
MessageTimeout=60
SchedulerParameters=sched_interval=5,bf_continue,bf_interval=5,bf_yield_interval=5000000,bf_max_time=170,bf_max_job_test=1000000,bf_window=43200
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=slurmdbd
NodeSet=cpu Feature=cpu
`

const (
	// partitions have the one node that is up, and each waiting job is in all of them.
	partitions = 100
	// waiting are jobs.
	waiting = 2000
	// busy is the node that is up. Those before it are of the elastic set, and their machines come late.
	busy = 6
	// late is how long the machines take to come.
	late = 5 * time.Minute
)

// lateSet has as many nodes as must start slowly.
var lateSet = map[string]string{"late.json": `{"nodes":"n[1-6]","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi"}`}

// slowTroubles take minutes. They have a cluster of their own, beside the other one.
var slowTroubles = []trouble{
	{"slurmctld has a thirtieth of a processor, and jobs wait in many partitions", (*cluster).starve, []string{"SlurmSchedulerSlow", "SlurmBackfillSlow"}},
	{"slurmdbd's machine loses its power, and thousands of jobs end", (*cluster).loseSlurmdbd, []string{"SlurmdbdQueueGrows"}},
	{"six machines come after five minutes", (*cluster).startLate, []string{"SlurmElasticStartsSlow"}},
}

// TestSlow: alerts whose causes take minutes. The test mostly waits.
func TestSlow(t *testing.T) {
	if os.Getenv("SLURMLET_E2E_FULL") == "" {
		t.Skip("it takes six minutes: SLURMLET_E2E_FULL=1 has it run")
	}
	t.Parallel()
	s := newSettings(t)
	s.Slow = true
	native.EachVersion(t, func(t *testing.T, g native.Given) {
		t.Parallel()
		s := s
		s.Given = g
		native.Play(t, 10*time.Minute, s)
	})
}

// partitionNames are p0, p1 and so on.
func partitionNames() (names []string) {
	for i := range partitions {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	return names
}

func newSlow(s settings) (*cluster, error) {
	conf := slowConf
	for _, name := range partitionNames() {
		conf += "PartitionName=" + name + " Nodes=cpu\n"
	}
	c, err := makeCluster(s, native.Options{Nodes: 7, Aliases: []string{database}, SlurmConf: conf})
	if err != nil {
		return nil, err
	}
	return c, c.writeElasticSets(slurmdbdAddress.String()+" slurmdbd\n", lateSet)
}

// begin has one node full for the whole test, and six machines wanted.
func (c *cluster) begin() error {
	if err := c.ControlBySlurmlet("/run/volume", c.hear, "SLURMLET_PREFLIGHT=parse", "SLURMLET_CLUSTER_INTERVAL=10s", "SLURMLET_ELASTIC_SETS=/etc/sets"); err != nil {
		return err
	}
	full := c.Nodes[busy]
	if err := errors.Join(c.Start(full), full.AwaitReady(time.Minute)); err != nil {
		return err
	}
	if err := c.run(sbatch("--mem=300", "--time=1-0", "--nodelist="+full.Name)...); err != nil {
		return err
	}
	for _, n := range c.Nodes[:busy] {
		if err := c.run(sbatch("--time=1-0", "--nodelist="+n.Name)...); err != nil {
			return err
		}
	}
	err := c.UntilAgent(native.Limit, "six nodes start", func(s *agent.Status) bool {
		return s.Elastic != nil && len(s.Elastic.Sets) == 1 && s.Elastic.Sets[0].Starting == busy
	})
	c.wanted = time.Now()
	return err
}

// starve gives slurmctld 3 ms of each 100 ms, as the kernel does where a container may have little of a processor.
// The jobs are separate records, as they are after each was edited.
func (c *cluster) starve() error {
	go c.throttle()
	all := []string{"/usr/bin/sbatch", "--parsable", "--hold", "--partition=" + strings.Join(partitionNames(), ","), "--mem=200", "--time=30", fmt.Sprintf("--array=1-%d", waiting), "--output=/dev/null", "--wrap=true"}
	out, err := c.Command(all[0], all[1:]...).Output()
	if err != nil {
		return fmt.Errorf("cannot submit jobs: %w", err)
	}
	c.array = strings.TrimSpace(string(out))
	return errors.Join(
		c.run("/usr/bin/scontrol", "update", fmt.Sprintf("jobid=%s_[2-%d]", c.array, waiting), "nice=1"),
		c.run("/usr/bin/scontrol", "release", c.array),
	)
}

func (c *cluster) throttle() {
	defer close(c.fed)
	const period, share = 100 * time.Millisecond, 3 * time.Millisecond
	slurmctldAgent := c.Slurmctld.Process.Pid
	for {
		_ = signal(slurmctldAgent, "slurmctld", unix.SIGSTOP) // the troubles that follow would tell
		<-time.After(period - share)
		_ = signal(slurmctldAgent, "slurmctld", unix.SIGCONT)
		select {
		case <-c.feed:
			return
		case <-time.After(share):
		}
	}
}

// loseSlurmdbd: the jobs never ran, and each has an end that slurmdbd must hear of.
func (c *cluster) loseSlurmdbd() error {
	close(c.feed)
	<-c.fed
	return errors.Join(unix.Kill(c.slurmdbd.PID(), unix.SIGKILL), c.run("/usr/bin/scancel", c.array))
}

func (c *cluster) startLate() error {
	<-time.After(late - time.Since(c.wanted)) // the cause itself
	for _, n := range c.Nodes[:busy] {
		if err := c.Start(n, "SLURMLET_ELASTIC=yes", "SLURMLET_STORAGE_LIMIT=1Gi", "SLURMLET_PODINFO_DIR=/srv/none"); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes[:busy] {
		if err := n.AwaitReady(time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// silent: none of the alerts has fired.
func (p *server) silent(alerts []string) error {
	fired, err := p.firedSince(p.began)
	for _, alert := range alerts {
		if slices.Contains(fired, alert) {
			err = errors.Join(err, fmt.Errorf("%s has fired before its cause", alert))
		}
	}
	return err
}

func insideSlow(s settings) error {
	began := time.Now()
	c, err := newSlow(s)
	if err != nil {
		return err
	}
	for _, act := range []func() error{c.account, c.begin} {
		if err == nil {
			err = act()
		}
	}
	var p *server
	if err == nil {
		p, err = startPrometheus(s, c, c.Nodes[busy])
	}
	for _, one := range slowTroubles {
		if err == nil {
			err = p.silent(one.alerts)
		}
		if err == nil {
			err = p.fire(5*time.Minute, []trouble{one})
		}
	}
	if err == nil {
		fmt.Printf("Slurm %s: it took %v\n", s.Version, time.Since(began).Round(time.Second))
	}
	return errors.Join(c.explained(err), c.Close())
}
