//go:build e2e

package elastic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/chaos"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// TestChaos has jobs of all kinds on an elastic set while pods are lost, deleted, and wait for machines, slurmd and
// slurmctld are killed, and the maker of pods is away. SLURMLET_CHAOS_TIME is for how long, and SLURMLET_CHAOS_SEED
// which chaos. The seed decides on the version; a long one is for both. It is no part of make test: what its jobs
// need in the end, one minute or four, is drawn too.
func TestChaos(t *testing.T) {
	if !full() && !chaos.Asked() {
		t.Skip("make chaos plays it")
	}
	usual := chaos.Plan{Length: 40 * time.Second, Seed: 1}
	if full() {
		usual.Length = 10 * time.Minute
	}
	plan, err := usual.Read()
	require.NoError(t, err)
	versions := parts.Versions()
	if !full() {
		versions = versions[plan.Seed%uint64(len(versions)):][:1]
	}
	t.Parallel()
	for _, version := range versions {
		t.Logf("%s (Slurm %s)", plan.Again(), version)
		t.Run(version, func(t *testing.T) { enter(t, settings{Given: native.For(t, version), Story: "chaos", Chaos: plan}) })
	}
}

// chaosConf: a node that has no machine for a while is not given up. 24.11 has a job that was requeued wait for as long
// as its credential is valid.
const chaosConf = `SlurmctldParameters=enable_configless
AuthInfo=use_client_ids,cred_expire=10
ResumeTimeout=120
SchedulerParameters=sched_interval=3,bf_interval=3
NodeSet=k Feature=k
PartitionName=k Nodes=k SuspendTime=4
`

const (
	chaosNodes = 6
	// chaosGrace is above what any job of chaos takes: a pod that is deleted loses none.
	chaosGrace = time.Minute
	// chaosDir is where jobs write.
	chaosDir = "/srv"
	// forgetful is for how long slurmctld may not have saved what it knows.
	forgetful = 10 * time.Second
)

var chaosSets = map[string]string{
	"k": fmt.Sprintf(`{"nodes":"k-[0-%d]","cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["k"]}`, chaosNodes-1),
}

var chaosSteps = []step{{"chaos", (*world).chaos}, {"nothing is left of chaos", (*world).nothingLeftOfChaos}}

var chaosKinds = append([]chaos.Kind{
	{Name: "three", Options: []string{"--requeue", "-N3", "--ntasks-per-node=1"}, Script: "srun sleep %d", Parts: 1, Requeues: true},
	{Name: "four", Options: []string{"--no-requeue", "-N4", "--ntasks-per-node=1"}, Script: "srun sleep %d", Parts: 1},
	{Name: cancelled, Options: []string{"--requeue"}, Script: "sleep %d", Parts: 1, Requeues: true},
}, chaos.Kinds...)

// cancelled jobs are cancelled some seconds after they were submitted.
const cancelled = "cancelled"

// mayhem does things to a cluster.
type mayhem struct {
	*world
	dice    *rand.Rand
	pending sync.WaitGroup

	lock sync.Mutex
	errs []error
	busy map[string]bool // nodes to which something is done
	// lost is when pods were lost, killed when slurmctld was.
	lost, killed []time.Time
	// one is for what is done to slurmctld, or to the maker of pods.
	one map[string]*sync.Mutex
}

// happen does one thing, which may go on for a while beside the next. What is drawn does not depend on what became of
// the things before.
func (m *mayhem) happen() {
	things := []struct {
		weight int
		name   string
		toNode func(node string, pause time.Duration) error // nothing else is done to that node meanwhile
		do     func(pause time.Duration) error              // it does not meet itself
	}{
		{3, "a pod is lost", m.losePod, nil},
		{3, "a pod is deleted", m.deletePod, nil},
		{2, "slurmd is killed", m.killSlurmd, nil},
		{2, "there is no machine", m.noMachine, nil},
		{2, "a pod does not vanish", m.lingers, nil},
		{1, "slurmctld is killed", nil, func(time.Duration) error { return m.killSlurmctld() }},
		{1, "slurmctld is restarted", nil, func(time.Duration) error { return m.stopSlurmctld() }},
		{2, "the maker of pods is away", nil, m.makerAway},
	}
	total := 0
	for _, one := range things {
		total += one.weight
	}
	which, node := m.dice.IntN(total), fmt.Sprintf("k-%d", m.dice.IntN(chaosNodes))
	pause := time.Second + time.Duration(m.dice.Int64N(int64(8*time.Second)))
	for _, one := range things {
		if which -= one.weight; which >= 0 {
			continue
		}
		do, what := one.do, one.name
		if do == nil {
			do, what = func(pause time.Duration) error { return one.toNode(node, pause) }, node
		}
		m.lock.Lock()
		busy := m.busy[what]
		m.busy[what] = true
		m.lock.Unlock()
		if busy {
			return
		}
		m.note("chaos: %s (%s, %v)", one.name, node, pause)
		m.pending.Go(func() {
			err := do(pause)
			m.lock.Lock()
			defer m.lock.Unlock()
			m.busy[what] = false
			if err != nil {
				m.errs = append(m.errs, fmt.Errorf("%s (%s): %w", one.name, node, err))
			}
		})
		return
	}
}

func (m *mayhem) blow(kind *[]time.Time) {
	m.lock.Lock()
	defer m.lock.Unlock()
	*kind = append(*kind, time.Now())
}

func (m *mayhem) losePod(node string, _ time.Duration) error {
	if m.pods.of(node) == nil {
		return nil
	}
	m.blow(&m.lost)
	if err := m.pods.lose(node); err != nil && m.pods.of(node) != nil { // else its end has come
		return err
	}
	return nil
}

func (m *mayhem) deletePod(node string, _ time.Duration) error {
	if m.pods.of(node) == nil {
		return nil
	}
	uid := m.uid(node)
	err := m.pods.Delete(node, uid)
	m.maker.Lost(node, uid)
	return err
}

// killSlurmd may find none: it may be starting.
func (m *mayhem) killSlurmd(node string, _ time.Duration) error {
	slurmd, err := slurmdOf(m.pods.of(node))
	if err == nil {
		_ = unix.Kill(slurmd, unix.SIGKILL) // it may have ended
	}
	return nil
}

func (m *mayhem) noMachine(node string, pause time.Duration) error {
	m.pods.hold(node)
	<-time.After(pause)
	m.pods.release(node)
	return nil
}

func (m *mayhem) lingers(node string, pause time.Duration) error {
	m.pods.linger(node)
	<-time.After(pause)
	m.pods.letGo(node)
	return nil
}

func (m *mayhem) makerAway(pause time.Duration) error {
	m.maker.Away(true)
	<-time.After(pause)
	m.maker.Away(false)
	return nil
}

func (m *mayhem) killSlurmctld() error {
	m.one["slurmctld"].Lock()
	defer m.one["slurmctld"].Unlock()
	m.blow(&m.killed)
	return m.killSlurmctld()
}

func (m *mayhem) stopSlurmctld() error {
	m.one["slurmctld"].Lock()
	defer m.one["slurmctld"].Unlock()
	return m.stopSlurmctld()
}

// submitted is a job, and when it was.
type submitted struct {
	chaos.Job
	at time.Time
}

// submit submits a job every other second or so. While slurmctld is away sbatch waits, or fails, and then the job was not
// submitted.
func (m *mayhem) submit(dice *rand.Rand, end time.Time) (jobs []submitted) {
	for i := 0; time.Now().Before(end); i++ {
		job, args := chaos.Draw(dice, chaosKinds, i, chaosDir)
		at := time.Now()
		id, err := m.slurm("timeout", append([]string{"60", "sbatch", "--partition=k", "--mem=10"}, args...)...)
		lines := strings.Fields(id)
		if err == nil && len(lines) > 0 {
			job.ID = lines[len(lines)-1] // after what sbatch says of a slurmctld that was away
			jobs = append(jobs, submitted{job, at})
			m.note("chaos: job %s is %s", job.ID, job.Name)
		}
		pause := time.Duration(dice.Int64N(int64(5 * time.Second)))
		if job.Kind.Name == cancelled && err == nil {
			after := time.Duration(dice.Int64N(int64(10 * time.Second)))
			m.pending.Go(func() {
				<-time.After(after)
				_, _ = m.slurm("timeout", "60", "scancel", "--name="+job.Name) // it may have ended
			})
		}
		<-time.After(pause)
	}
	return jobs
}

func (w *world) chaos() error {
	plan := w.settings.Chaos
	things, dice := plan.Dice()
	w.pods.grace = chaosGrace
	m := &mayhem{world: w, dice: things, busy: map[string]bool{}, one: map[string]*sync.Mutex{"slurmctld": {}}}
	end := time.Now().Add(plan.Length)
	var jobs []submitted
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		jobs = m.submit(dice, end)
	}()
	for time.Now().Before(end) {
		m.happen()
		<-time.After(time.Duration(m.dice.Int64N(int64(3 * time.Second))))
	}
	<-ended
	m.pending.Wait()
	return errors.Join(errors.Join(m.errs...), m.judge(jobs))
}

// judge waits for the end of all jobs and says how each has ended.
func (m *mayhem) judge(jobs []submitted) error {
	left := ""
	// A loaded machine leaves many to the end.
	if err := native.Within(5*limit+m.settings.Chaos.Length, "the queue is not empty", func() bool {
		out, err := m.slurm("squeue", "--noheader", "--array", "--format=%i %r %T %N %j")
		if left = out; err != nil {
			return false
		}
		for line := range strings.Lines(out) {
			// A job that was requeued may not begin for two minutes.
			if id, rest, _ := strings.Cut(line, " "); strings.HasPrefix(rest, "BeginTime") {
				_, _ = m.slurm("scontrol", "update", "jobid="+id, "starttime=now+3") // it may have begun
			}
		}
		return out == ""
	}); err != nil {
		return fmt.Errorf("%w: %s", err, left)
	}
	fates, err := m.fates()
	if err != nil {
		return err
	}
	var errs []error
	runs, again, forgotten := 0, 0, 0
	for _, job := range jobs {
		for i := range job.Parts {
			runs++
			id, file := job.Part(i)
			fate, is := fates[strings.TrimPrefix(file, "chaos-")]
			if fate.Text, err = m.written(file); err != nil {
				return err
			}
			fate.Cancelled = job.Kind.Name == cancelled
			fate.Failed, fate.Forgotten = since(m.lost, job.at), since(m.killed, job.at)
			switch {
			case !is && soonAfter(m.killed, job.at): // slurmctld had not saved it
				forgotten++
			case !is:
				errs = append(errs, fmt.Errorf("slurmctld does not know job %s (%s)", id, job.Name))
			default:
				if err := job.Judge(fate); err != nil {
					errs = append(errs, fmt.Errorf("job %s (%s): %w: %s, %d restarts; %q", id, job.Name, err, fate.State, fate.Restarts, fate.Text))
				}
				if fate.Restarts > 0 {
					again++
				}
			}
		}
	}
	fmt.Printf("chaos, Slurm %s: %d jobs, %d runs, %d of them more than once; %d pods were lost, and slurmctld was killed %d times and forgot %d runs\n",
		m.settings.Version, len(jobs), runs, again, len(m.lost), len(m.killed), forgotten)
	return errors.Join(errs...)
}

func since(blows []time.Time, at time.Time) (n int) {
	for _, one := range blows {
		if one.After(at) {
			n++
		}
	}
	return n
}

func soonAfter(blows []time.Time, at time.Time) bool {
	return since(blows, at) > since(blows, at.Add(forgetful))
}

// fates are those of all jobs that slurmctld knows, by their names and tasks.
func (m *mayhem) fates() (map[string]chaos.Fate, error) {
	out, err := m.slurm("scontrol", "--oneliner", "show", "jobs")
	if err != nil {
		return nil, err
	}
	fates := map[string]chaos.Fate{}
	for line := range strings.Lines(out) {
		fields := map[string]string{}
		for field := range strings.FieldsSeq(line) {
			key, value, _ := strings.Cut(field, "=")
			if _, known := fields[key]; !known {
				fields[key] = value
			}
		}
		name := fields["JobName"]
		if task := fields["ArrayTaskId"]; task != "" {
			name += "-" + task
		}
		restarts, _ := strconv.Atoi(fields["Restarts"])
		fates[name] = chaos.Fate{State: fields["JobState"], Restarts: restarts}
	}
	return fates, nil
}

// written is what jobs have written to a file, which may be nothing.
func (w *world) written(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(w.Root, chaosDir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot read what a job has written: %w", err)
	}
	return string(text), nil
}

// nothingLeftOfChaos: the set waits for jobs, and there is no pod, and nothing of one.
func (w *world) nothingLeftOfChaos() error {
	states := ""
	if err := native.Within(3*limit, "the set does not wait for jobs", func() bool {
		nodes, err := w.nodes()
		states = ""
		for _, name := range slices.Sorted(maps.Keys(nodes)) {
			states += fmt.Sprintf(" %s=%s(%s)", name, strings.Join(nodes[name].State, "+"), nodes[name].Reason)
		}
		if err != nil || len(nodes) != chaosNodes || len(w.maker.UIDs()) > 0 {
			return false
		}
		for _, n := range nodes {
			if !off(n) || !n.is("CLOUD") {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("%w:%s; there are pods %v", err, states, w.maker.UIDs())
	}
	wanted, err := w.controller.wanted(context.Background())
	if err != nil {
		return err
	}
	for name, is := range wanted {
		if is {
			return fmt.Errorf("slurmctld's agent wants %s, which is off", name)
		}
	}
	return w.until("processes are left", func() bool {
		all, err := procfs.AllProcs()
		if err != nil {
			return false
		}
		for _, p := range all {
			if comm, err := p.Comm(); err == nil && (comm == "slurmd" || comm == "slurmstepd" || comm == "wait-nodes") {
				return false
			}
		}
		return true
	})
}
