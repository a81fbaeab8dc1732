package agent

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/clusterview"
	"github.com/slurmlet/slurmlet/internal/elastic"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// nodeWaits answers wait-nodes, slurm.conf's PrologSlurmctld. One look at the nodes, and one question for
// the jobs' states, serve all jobs that wait. slurmctld is asked nothing while no job waits.
//
// With 10,000 nodes a look costs slurmctld 20 ms (REQUEST_NODE_INFO), and at most a tenth of the time
// passes in looks.
type nodeWaits struct {
	agent *Agent
	slurm slurm.Scontrol
	limit prologLimit

	lock  sync.Mutex
	waits elastic.Waits
	told  map[int]chan elastic.Outcome
	// ending is until when no job may wait, and left is when the last one has ended its wait.
	ending, left time.Time
	// wake says that something has changed; asking: somebody looks at the nodes.
	wake   chan struct{}
	asking bool
}

func (a *Agent) newNodeWaits(s slurm.Scontrol) *nodeWaits {
	return &nodeWaits{agent: a, slurm: s, limit: prologLimit{agent: a}, told: map[int]chan elastic.Outcome{}, wake: make(chan struct{}, 1)}
}

const (
	// endingTime bounds how long no job may wait, whatever becomes of the reconfigure.
	endingTime = time.Minute
	// leavingTime is what a wait-nodes that has its answer needs to end, and slurmctld to hear of that.
	leavingTime = time.Second
)

// Settled says whether slurmctld may start jobs that do not wait. It finds out if not.
func (n *nodeWaits) Settled() bool {
	if n == nil {
		return true
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	settled := n.waits.Settle(time.Now())
	if !settled {
		n.keepAsking()
	}
	return settled
}

// End ends all waits before a reconfigure. slurmctld then starts the jobs in its own time: it looks every 30 s whether
// their nodes are up.
func (n *nodeWaits) End() (over bool) {
	if n == nil {
		return true
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	now := time.Now()
	n.ending = now.Add(endingTime)
	if n.waits.Len() > 0 {
		n.release(n.waits.EndAll(elastic.Reconfigures))
		n.left = now
	}
	return now.Sub(n.left) >= leavingTime
}

// Allow lets jobs wait again.
func (n *nodeWaits) Allow() {
	if n == nil {
		return
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	n.ending = time.Time{}
}

// ends notes that a wait ends now.
func (n *nodeWaits) ends() {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.left = time.Now()
}

// stir has the nodes looked at soon, if jobs wait.
func (n *nodeWaits) stir() {
	if n == nil {
		return
	}
	n.lock.Lock()
	if n.asking {
		n.waits.Stir(time.Now())
	}
	n.lock.Unlock()
	n.rouse()
}

// heard takes a line of slurmctld's, which writes one for each slurmd that it has missed (info).
func (n *nodeWaits) heard(line string) {
	if n != nil && strings.HasSuffix(line, " now responding") {
		n.stir()
	}
}

func (n *nodeWaits) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// begin takes that slurmctld starts. No job begins until it has settled.
func (n *nodeWaits) begin() {
	if n == nil {
		return
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	n.waits.Begin(time.Now())
}

// wait returns when the job need not wait for its nodes any more. allocated is when the job had them.
func (n *nodeWaits) wait(ctx context.Context, job string, nodes hostlist.Set, allocated time.Time) elastic.Outcome {
	defer n.ends()
	sets, _ := n.agent.elastic.current()
	var own hostlist.Set // slurmctld starts no others
	for _, set := range sets.All {
		own = own.Union(nodes.Intersection(set.Nodes))
	}
	limit := n.limit.get()
	now := time.Now()
	n.lock.Lock()
	if now.Before(n.ending) {
		n.lock.Unlock()
		return elastic.Reconfigures
	}
	number, outcome := n.waits.Add(elastic.Wait{Job: job, Nodes: own, Allocated: allocated, Until: now.Add(limit)}, now)
	if outcome != "" {
		n.lock.Unlock()
		return outcome
	}
	told := make(chan elastic.Outcome, 1)
	n.told[number] = told
	n.keepAsking()
	n.lock.Unlock()
	n.rouse()
	select {
	case outcome := <-told:
		return outcome
	case <-ctx.Done():
	case <-n.agent.over:
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	n.waits.Drop(number)
	delete(n.told, number)
	return elastic.CannotTell
}

// keepAsking is for the holder of lock.
func (n *nodeWaits) keepAsking() {
	if !n.asking {
		n.asking = true
		go n.ask(n.agent.alive)
	}
}

// ask asks slurmctld until nothing is waited for.
func (n *nodeWaits) ask(ctx context.Context) {
	for {
		n.lock.Lock()
		due := n.waits.Due()
		if due.IsZero() || ctx.Err() != nil {
			n.asking = false
			n.lock.Unlock()
			return
		}
		n.lock.Unlock()
		if pause := time.Until(due); pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-n.wake:
				timer.Stop()
				continue
			case <-ctx.Done():
				timer.Stop()
				continue
			}
		}
		n.look(ctx)
	}
}

// look asks for the nodes, and for the jobs whose nodes are not up.
func (n *nodeWaits) look(ctx context.Context) {
	question, cancel := context.WithTimeout(ctx, n.agent.questionLimit())
	defer cancel()
	began := time.Now()
	n.lock.Lock()
	n.release(n.waits.Overdue(began))
	settled, nodes := n.waits.Settled(), n.waits.Nodes().String()
	n.lock.Unlock()
	if !settled {
		n.survey(question, began)
		return
	}
	if nodes == "" {
		return
	}
	up, err := n.slurm.PoweredUp(question, nodes)
	n.lock.Lock()
	if err != nil {
		n.failed(err, began)
		n.lock.Unlock()
		return
	}
	n.release(n.waits.Looked(up, began, time.Now()))
	jobs := n.waits.Jobs()
	n.lock.Unlock()
	if len(jobs) == 0 {
		return
	}
	began = time.Now()
	configuring, err := n.slurm.Configuring(question, jobs)
	n.lock.Lock()
	defer n.lock.Unlock()
	if err != nil {
		n.failed(err, began)
		return
	}
	n.release(n.waits.Told(jobs, configuring, began))
}

// survey looks whether all nodes have registered with a slurmctld that has started.
func (n *nodeWaits) survey(ctx context.Context, began time.Time) {
	view := n.agent.elastic.look.Get(ctx, 0)
	nodes := view.Readings[clusterview.FamilyNodes]
	n.lock.Lock()
	defer n.lock.Unlock()
	if nodes.Err != nil {
		n.failed(nodes.Err, began)
		return
	}
	n.release(n.waits.Survey(view.Nodes, nodes.At, began, time.Now()))
}

// failed and release are for the holder of lock.
func (n *nodeWaits) failed(err error, began time.Time) {
	n.agent.log(slog.LevelDebug, "cannot ask slurmctld whether nodes of jobs are up", slog.Any("error", err))
	n.release(n.waits.Failed(began, time.Now()))
}

func (n *nodeWaits) release(over map[int]elastic.Outcome) {
	for number, outcome := range over {
		if told := n.told[number]; told != nil { // else nobody waits any more
			told <- outcome
			delete(n.told, number)
		}
	}
}

// prologLimit is how long PrologSlurmctld may run. slurm.conf is read every few seconds, and not for
// each job.
type prologLimit struct {
	agent *Agent
	lock  sync.Mutex
	until time.Time
	limit time.Duration
}

const (
	prologLimitTime = 5 * time.Second
	// noPrologLimit is more than ResumeTimeout, which slurmctld bounds a job's wait by.
	noPrologLimit = 24 * time.Hour
)

func (p *prologLimit) get() time.Duration {
	p.lock.Lock()
	defer p.lock.Unlock()
	if now := time.Now(); !now.Before(p.until) {
		set, _ := slurmconf.Read(slurmconf.Dir(p.agent.conf.Live()), slurmconf.SlurmConf)
		p.limit, p.until = limitOfProlog(set.Conf(slurmconf.SlurmConf)), now.Add(prologLimitTime)
	}
	return p.limit
}

// limitOfProlog leaves a fifth of PrologTimeout, or else of PrologEpilogTimeout: slurmctld kills a
// PrologSlurmctld that takes longer, and requeues its job.
func limitOfProlog(conf *slurmconf.Conf) time.Duration {
	if conf == nil {
		return noPrologLimit
	}
	pair, set := conf.Get("PrologTimeout") // 25.05 and later
	if !set {
		pair, _ = conf.Get("PrologEpilogTimeout")
	}
	seconds, err := strconv.ParseUint(pair.Value, 10, 16)
	if err != nil || seconds >= 65534 { // it is not set, or says that there is none
		return noPrologLimit
	}
	return time.Duration(seconds) * time.Second * 4 / 5
}
