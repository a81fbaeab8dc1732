//go:build e2e

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// slurmConf has partitions of all kinds, and licenses. Jobs that have ended are kept until they
// have been looked at.
const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=4096
MinJobAge=3600
Licenses=matlab:10,fluent:4
GresTypes=gpu
PartitionName=many Nodes=ALL OverSubscribe=FORCE:50
PartitionName=closed Nodes=ALL State=DOWN
PartitionName=limited Nodes=ALL MaxNodes=1 MaxTime=5
PartitionName=drained Nodes=ALL State=DRAIN
PartitionName=dark Nodes=ALL Hidden=YES State=INACTIVE
`

const (
	volume = "/run/volume"
	limit  = native.Limit
	// interval is the least time between two collections of slurmctld's agent.
	interval = time.Second
)

// world is a cluster with nodes and jobs in many states.
type world struct {
	*native.Cluster
	volume    *native.Volume
	gate      *native.Gate
	collector *clusterview.Collector
	// metrics: slurmctld has metrics itself.
	metrics bool
	// web is the program slurmlet-web, beside slurmlet.
	web  string
	lock sync.Mutex
	log  []string
}

func newWorld(s settings) (*world, error) {
	conf := slurmConf
	if s.Metrics {
		conf += "MetricsType=metrics/openmetrics\n"
	}
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: 4, SlurmConf: conf})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: c, metrics: s.Metrics, web: filepath.Join(filepath.Dir(s.Slurmlet), "slurmlet-web")}
	if err := w.addUsers("ann", "bob", "cem"); err != nil {
		return nil, err
	}
	gres := []byte("NodeName=g-1 Name=gpu Type=t File=/dev/null,/dev/zero\n")
	if err := os.WriteFile(filepath.Join(c.Root, "etc/slurm/gres.conf"), gres, 0o644); err != nil {
		return nil, err
	}
	files, err := c.Sources()
	if err != nil {
		return nil, err
	}
	files["gres.conf"] = gres
	if w.volume, err = c.NewVolume(volume, files); err != nil {
		return nil, err
	}
	if err := w.control(); err != nil {
		w.explain()
		return nil, err
	}
	return w, nil
}

// firstUser is the first user's number.
const firstUser = 2001

func (w *world) addUsers(names ...string) error {
	file, err := os.OpenFile(filepath.Join(w.Root, "etc/passwd"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for i, name := range names {
		fmt.Fprintf(file, "%s:x:%d:%d::/tmp:/bin/sh\n", name, firstUser+i, firstUser+i)
	}
	return file.Close()
}

func (w *world) control() error {
	return w.ControlBySlurmlet(volume, func(line string) {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.log = append(w.log, line)
	}, "SLURMLET_PREFLIGHT=parse", "SLURMLET_CLUSTER_INTERVAL="+interval.String(), "SLURMLET_METRICS_USERS=100", "SLURMLET_WEB_SOCKET="+webSocket)
}

func (w *world) explain() {
	for _, ask := range []string{"squeue --states=all --all", "sinfo --all --Node --long"} {
		words := strings.Fields(ask)
		out, err := w.slurm(words[0], words[1:]...)
		fmt.Println(ask, out, err)
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	fmt.Println(strings.Join(w.log, "\n"))
	for _, n := range w.Nodes {
		fmt.Println(n.Name, strings.Join(n.Log(), "\n"))
	}
}

// slurm runs a command of Slurm's, and returns what it prints.
func (w *world) slurm(program string, args ...string) (string, error) {
	return w.slurmFrom("", program, args...)
}

func (w *world) slurmFrom(stdin, program string, args ...string) (string, error) {
	cmd := w.Command("/usr/bin/"+program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}

func (w *world) startNodes() error {
	for _, n := range w.Nodes {
		if err := w.Start(n); err != nil {
			return err
		}
	}
	for _, n := range w.Nodes {
		select {
		case <-n.Ready:
		case <-n.Exited:
			return fmt.Errorf("%s has exited with %d", n.Name, n.Status)
		case <-time.After(limit):
			return fmt.Errorf("%s is not Ready within %v", n.Name, limit)
		}
	}
	var all error
	for _, args := range [][]string{
		{"create", "nodename=c-[1-20]", "cpus=4", "realmemory=8000", "state=cloud", "features=blue,big", "weight=7"},
		{"create", "nodename=g-1", "cpus=4", "realmemory=8000", "state=cloud", "gres=gpu:t:2"},
		{"update", "nodename=n4", "state=drain", `reason=it's "odd"; Comment=none [root@5] of a kind`},
		{"update", "nodename=n4", "comment=a comment", "extra={\"a\": \"b c\"}"},
		{"update", "nodename=c-[4-20],g-1", "state=drain", "reason=kept free"},
		{"update", "nodename=c-1", "state=drain", "reason=kept free"},
		{"update", "nodename=c-20", "state=resume"},
		{"update", "nodename=c-2", "state=down", "reason=broken"},
		{"update", "nodename=c-3", "state=fail", "reason=x"},
		{"create", "reservation", "reservationname=now", "starttime=now", "duration=60", "users=ann", "nodes=n3", "flags=ignore_jobs,overlap"},
		{"create", "reservation", "reservationname=later", "starttime=now+3hours", "duration=60", "users=root,bob", "nodes=c-[18-19]", "flags=ignore_jobs,overlap"},
	} {
		_, err := w.slurm("scontrol", args...)
		all = errors.Join(all, err)
	}
	return all
}

// held waits at the gate, and costs nothing.
const held = "#!/bin/sh\nexec flock --shared /srv/gate true\n"

// job is a kind of jobs.
type job struct {
	name, script string
	args         []string
	count        int
	// state is what squeue says in the end.
	state string
	// then is done to the first of them once its state is RUNNING, or at once when it is empty.
	running bool
	then    []string
}

func (w *world) submitJobs() error {
	var err error
	if w.gate, err = w.NewGate(); err != nil {
		return err
	}
	ids := map[string]string{}
	for _, j := range []job{
		{name: "runs", script: held, count: 12, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, state: "RUNNING"},
		{name: "configures", script: held, count: 1, args: []string{"--nodelist=c-20"}, state: "CONFIGURING"},
		{name: "array", script: held, count: 1, args: []string{"--partition=many", "--mem=5", "--exclude=c-20", "--array=1-30%3"}, state: "RUNNING"},
		{name: "steps of two", script: held, count: 1, args: []string{"--array=1-21:2,40", "--begin=now+2hours"}, state: "PENDING"},
		{name: "many", script: held, count: 1, args: []string{"--array=1-" + manyTasks, "--hold", "--uid=2002"}, state: "PENDING"},
		{name: "held by its user", script: held, count: 5, args: []string{"--hold"}, state: "PENDING"},
		{name: "begins later", script: held, count: 7, args: []string{"--begin=now+1hour", "--nice=100", "--time=1-02:03:00"}, state: "PENDING"},
		{name: "waits for one", script: held, count: 3, args: []string{"--dependency=afterok:RUNS"}, state: "PENDING"},
		{name: "licenses", script: held, count: 3, args: []string{"--partition=many", "--mem=5", "--exclude=c-20", "--licenses=fluent:3"}, state: ""},
		{name: "closed", script: held, count: 4, args: []string{"--partition=closed"}, state: "PENDING"},
		{name: "limited", script: held, count: 2, args: []string{"--partition=limited", "--time=10"}, state: "PENDING"},
		{name: "reserved", script: held, count: 2, args: []string{"--reservation=later", "--uid=2002"}, state: "PENDING"},
		{name: "in a reservation", script: held, count: 1, args: []string{"--reservation=now", "--uid=2001", "--mem=5", "--exclude=c-20"}, state: "RUNNING"},
		{name: "many partitions", script: held, count: 2, args: []string{"--partition=all,many", "--begin=now+1hour", "--constraint=blue&big", "--nodes=2-3", "--ntasks=4"}, state: "PENDING"},
		{name: "gpus", script: held, count: 2, args: []string{"--gres=gpu:t:1", "--begin=now+1hour"}, state: "PENDING"},
		{name: "completes", script: "#!/bin/sh\n", count: 6, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, state: "COMPLETED"},
		{name: "fails", script: "#!/bin/sh\nexit 3\n", count: 5, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, state: "FAILED"},
		{name: "cancelled as it waits", script: held, count: 1, args: []string{"--hold"}, then: []string{"scancel"}, state: "CANCELLED"},
		{name: "cancelled as it runs", script: held, count: 1, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, running: true, then: []string{"scancel"}, state: "CANCELLED"},
		{name: "held by root", script: held, count: 1, args: []string{"--begin=now+1hour", "--uid=2003"}, then: []string{"scontrol", "hold"}, state: "PENDING"},
		{name: "requeued", script: held, count: 1, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, running: true, then: []string{"scontrol", "requeue"}, state: ""},
		{name: "requeued and held", script: held, count: 1, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, running: true, then: []string{"scontrol", "requeuehold"}, state: ""},
		{name: "special exit", script: held, count: 1, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, running: true, then: []string{"scontrol", "requeuehold", "state=SpecialExit"}, state: "SPECIAL_EXIT"},
		{name: "suspended", script: held, count: 1, args: []string{"--partition=many", "--mem=5", "--exclude=c-20"}, running: true, then: []string{"scontrol", "suspend"}, state: "SUSPENDED"},
		{name: "parts", script: "#!/bin/sh\n#SBATCH --ntasks=1 --begin=now+1hour\n#SBATCH hetjob\n#SBATCH --ntasks=2 --begin=now+1hour\n", count: 2, state: "PENDING"},
		{name: "<script>alert(1)</script>", script: held, count: 1, args: []string{"--hold"}, state: "PENDING"},
		{name: "a|b,c:d\te \x1f\x1e ü\nRUNNING", script: held, count: 1, args: []string{"--hold"}, state: "PENDING"},
		{name: "1\n2", script: held, count: 1, args: []string{"--hold", "--comment=\"x\""}, state: "PENDING"},
	} {
		for i := range j.count {
			args := append([]string{"--parsable", "--output=/dev/null", "--chdir=/tmp", "--job-name=" + j.name}, j.args...)
			for k := range args {
				args[k] = strings.ReplaceAll(args[k], "RUNS", ids["runs"])
			}
			id, err := w.slurmFrom(j.script, "sbatch", args...)
			if err != nil {
				return err
			}
			if i == 0 {
				ids[j.name] = id
			}
		}
		id := ids[j.name]
		if j.running {
			if err := w.reaches(id, "RUNNING"); err != nil {
				return fmt.Errorf("%s: %w", j.name, err)
			}
		}
		if j.then != nil {
			if _, err := w.slurm(j.then[0], append(j.then[1:], id)...); err != nil {
				return err
			}
		}
		if j.state != "" {
			if err := w.reaches(id, j.state); err != nil {
				return fmt.Errorf("%s: %w", j.name, err)
			}
		}
	}
	_, err = w.slurm("scontrol", "update", "jobid="+ids["many"]+"_[1-"+manyTasks+"]", "nice=1") // which makes a record of each
	return err
}

// manyTasks has the cluster have 500 jobs and more.
const manyTasks = "400"

// reaches waits for a job's state.
func (w *world) reaches(id, state string) error {
	return native.Within(limit, "job "+id+" is not "+state, func() bool {
		out, err := w.slurm("squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%T")
		return err == nil && strings.Contains(out, state)
	})
}

func inside(s settings) error {
	if s.Cost {
		return measure(s)
	}
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	for _, act := range []struct {
		name string
		do   func() error
	}{
		{"nodes start", w.startNodes},
		{"jobs are submitted", w.submitJobs},
		{"the view is what Slurm's commands print", w.compareView},
		{"the metrics are what Slurm's commands and slurmctld itself tell", w.compareSeries},
		{"scrapers come", w.scrapers},
		{"slurmctld hangs", w.hang},
		{"the status page", w.page},
	} {
		began := time.Now()
		if err = act.do(); err != nil {
			err = fmt.Errorf("%s: %w", act.name, err)
			w.explain()
			break
		}
		fmt.Println("passed:", act.name, time.Since(began))
	}
	return errors.Join(err, w.Close())
}
