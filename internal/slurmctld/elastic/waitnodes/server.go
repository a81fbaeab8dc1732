package waitnodes

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Options are a Server's surroundings.
type Options struct {
	// Sets are the elastic node sets.
	Sets func() planner.Sets
	// Nodes asks slurmctld for all nodes, and Slurm which nodes are up and which jobs wait for theirs.
	Nodes *clusterview.Collector
	Slurm slurm.Scontrol
	// QuestionLimit bounds one question to slurmctld.
	QuestionLimit func() time.Duration
	// Conf is the directory of slurmctld's slurm.conf.
	Conf func() string
	// Alive ends with the agent, and Done is closed when it no longer serves.
	Alive context.Context
	Done  <-chan struct{}
	Log   func(slog.Level, string, ...slog.Attr)
}

// Server answers wait-nodes, slurm.conf's PrologSlurmctld. One look at the nodes, and one question for
// the jobs' states, serve all jobs that wait. slurmctld is asked nothing while no job waits.
//
// With 10,000 nodes a look costs slurmctld 20 ms (REQUEST_NODE_INFO), and at most a tenth of the time
// passes in looks.
type Server struct {
	Options
	limit prologLimit

	lock    sync.Mutex
	waits   planner.Waits
	waiting map[int]chan planner.Outcome
	// ending is until when no job may wait, and left is when the last one has ended its wait.
	ending, left time.Time
	// wake says that something has changed; asking: somebody looks at the nodes.
	wake   chan struct{}
	asking bool
}

// New is a Server that no job waits at. A nil Server is one of a cluster without elastic node sets.
func New(o Options) *Server {
	return &Server{Options: o, limit: prologLimit{conf: o.Conf}, waiting: map[int]chan planner.Outcome{}, wake: make(chan struct{}, 1)}
}

const (
	// endingTime bounds how long no job may wait, whatever becomes of the reconfigure.
	endingTime = time.Minute
	// leavingTime is what a wait-nodes that has its answer needs to end, and slurmctld to hear of that.
	leavingTime = time.Second
)

// Settled says whether slurmctld may start jobs that do not wait. It finds out if not.
func (s *Server) Settled() bool {
	if s == nil {
		return true
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	settled := s.waits.WantSettled(time.Now())
	if !settled {
		s.keepAsking()
	}
	return settled
}

// End ends all waits before a reconfigure. slurmctld then starts the jobs in its own time: it looks every 30 s whether
// their nodes are up.
func (s *Server) End() (over bool) {
	if s == nil {
		return true
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	now := time.Now()
	s.ending = now.Add(endingTime)
	if s.waits.Len() > 0 {
		s.release(s.waits.EndAll(planner.Reconfigures))
		s.left = now
	}
	return now.Sub(s.left) >= leavingTime
}

// Allow lets jobs wait again.
func (s *Server) Allow() {
	if s == nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.ending = time.Time{}
}

// noteEnd notes that a wait ends now.
func (s *Server) noteEnd() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.left = time.Now()
}

// Wake has the nodes looked at soon, if jobs wait.
func (s *Server) Wake() {
	if s == nil {
		return
	}
	s.lock.Lock()
	if s.asking {
		s.waits.Wake(time.Now())
	}
	s.lock.Unlock()
	s.wakeUp()
}

// Heard takes a line of slurmctld's, which writes one for each slurmd that it has missed (info).
func (s *Server) Heard(line string) {
	if s != nil && strings.HasSuffix(line, " now responding") {
		s.Wake()
	}
}

func (s *Server) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Begin takes that slurmctld starts. No job begins until it has settled.
func (s *Server) Begin() {
	if s == nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.waits.Begin(time.Now())
}

// Wait returns when the job need not wait for its nodes any more. allocated is when the job had them.
func (s *Server) Wait(ctx context.Context, job string, nodes hostlist.Set, allocated time.Time) planner.Outcome {
	defer s.noteEnd()
	sets := s.Sets()
	var own hostlist.Set // slurmctld starts no others
	for _, set := range sets.All {
		own = own.Union(nodes.Intersection(set.NodeNames))
	}
	limit := s.limit.get()
	now := time.Now()
	s.lock.Lock()
	if now.Before(s.ending) {
		s.lock.Unlock()
		return planner.Reconfigures
	}
	number, outcome := s.waits.Add(planner.Wait{Job: job, NodeNames: own, Allocated: allocated, Until: now.Add(limit)}, now)
	if outcome != "" {
		s.lock.Unlock()
		return outcome
	}
	decided := make(chan planner.Outcome, 1)
	s.waiting[number] = decided
	s.keepAsking()
	s.lock.Unlock()
	s.wakeUp()
	select {
	case outcome := <-decided:
		return outcome
	case <-ctx.Done():
	case <-s.Done:
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.waits.Drop(number)
	delete(s.waiting, number)
	return planner.NoAnswer
}

// keepAsking has ask run while somebody waits. The caller holds lock.
func (s *Server) keepAsking() {
	if !s.asking {
		s.asking = true
		go s.ask(s.Alive)
	}
}

// ask asks slurmctld until nothing is waited for.
func (s *Server) ask(ctx context.Context) {
	for {
		s.lock.Lock()
		due := s.waits.Due()
		if due.IsZero() || ctx.Err() != nil {
			s.asking = false
			s.lock.Unlock()
			return
		}
		s.lock.Unlock()
		if pause := time.Until(due); pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-s.wake:
				timer.Stop()
				continue
			case <-ctx.Done():
				timer.Stop()
				continue
			}
		}
		s.look(ctx)
	}
}

// look asks for the nodes, and for the jobs whose nodes are not up.
func (s *Server) look(ctx context.Context) {
	question, cancel := context.WithTimeout(ctx, s.QuestionLimit())
	defer cancel()
	began := time.Now()
	s.lock.Lock()
	s.release(s.waits.Overdue(began))
	settled, nodes := s.waits.Settled(), s.waits.NodesToAsk().String()
	s.lock.Unlock()
	if !settled {
		s.survey(question, began)
		return
	}
	if nodes == "" {
		return
	}
	up, err := s.Slurm.PoweredUp(question, nodes)
	s.lock.Lock()
	if err != nil {
		s.failed(err, began)
		s.lock.Unlock()
		return
	}
	s.release(s.waits.Looked(up, began, time.Now()))
	jobs := s.waits.JobsToAsk()
	s.lock.Unlock()
	if len(jobs) == 0 {
		return
	}
	began = time.Now()
	configuring, err := s.Slurm.Configuring(question, jobs)
	s.lock.Lock()
	defer s.lock.Unlock()
	if err != nil {
		s.failed(err, began)
		return
	}
	s.release(s.waits.Answered(jobs, configuring, began))
}

// survey looks whether all nodes have registered with a slurmctld that has started.
func (s *Server) survey(ctx context.Context, began time.Time) {
	view := s.Nodes.Get(ctx, 0)
	nodes := view.Readings[clusterview.FamilyNodes]
	s.lock.Lock()
	defer s.lock.Unlock()
	if nodes.Err != nil {
		s.failed(nodes.Err, began)
		return
	}
	s.release(s.waits.Survey(view.Nodes, nodes.At, began, time.Now()))
}

// failed and release are for the holder of lock.
func (s *Server) failed(err error, began time.Time) {
	s.Log(slog.LevelDebug, "cannot ask slurmctld whether nodes of jobs are up", slog.Any("error", err))
	s.release(s.waits.Failed(began, time.Now()))
}

func (s *Server) release(over map[int]planner.Outcome) {
	for number, outcome := range over {
		if waiting := s.waiting[number]; waiting != nil { // else nobody waits any more
			waiting <- outcome
			delete(s.waiting, number)
		}
	}
}

// prologLimit is how long PrologSlurmctld may run. slurm.conf is read every few seconds, and not for
// each job.
type prologLimit struct {
	conf  func() string
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
		set, _ := slurmconf.Read(slurmconf.Dir(p.conf()), slurmconf.SlurmConf)
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
