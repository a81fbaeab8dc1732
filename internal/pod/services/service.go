package services

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// State says whether a service runs, and slurmlet status prints it.
type State string

// The states of a service.
const (
	Waiting  State = "Waiting"  // for the service that comes before it
	Starting State = "Starting" // it does not answer yet
	Running  State = "Running"
	Backoff  State = "Backoff" // it has ended and is started again after a pause
	Stopping State = "Stopping"
	Stopped  State = "Stopped"
)

// Status is a service beside the daemon.
type Status struct {
	Name  string    `json:"name"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Reason is why it does not answer, or how it ended last.
	Reason string `json:"reason,omitempty"`
	PID    int    `json:"pid,omitempty"`
	// Refused says why an edit of its configuration is refused, and the last good one stays.
	Refused string `json:"refused,omitempty"`
	// Restarts counts its starts after the first.
	Restarts int `json:"restarts"`
}

// Service is a daemon beside the main process and the goroutine that supervises it. Nothing of the daemon depends
// on it.
type Service struct {
	name    string
	command process.Command
	// answers succeeds when it serves.
	answers func(context.Context) error
	// started is called with each process of it; nil: nobody asks.
	started func(pid int)
	// after is the service that should answer before this one starts; nil: none.
	after *Service

	table  *process.Table
	output *process.Output
	log    func(level slog.Level, text string, attrs ...slog.Attr)
	// wanted ends when the service is to stop, patience when it must be killed.
	wanted, patience context.Context
	stop, kill       context.CancelFunc
	// tried is closed when it has answered, or failed, for the first time, and over when its
	// goroutine has ended.
	tried, over chan struct{}
	// current is the process that runs, and refused why its next configuration is refused, nil where it is not.
	current atomic.Pointer[process.Process]
	refused atomic.Pointer[error]
	// now is the goroutine's, status what others see of it.
	now    Status
	status atomic.Pointer[Status]
}

const (
	// questionLimit bounds the wait for an answer.
	questionLimit = 15 * time.Second
	// stopLimit is how long a service gets from SIGTERM to SIGKILL.
	stopLimit = 5 * time.Second
	// patientTries is how many tries are nothing to worry about: nobody is ready at once.
	patientTries = 3
)

// servicePath is all that services inherit: sshd would answer to a notify socket,
// too, and users have no business with the agent's variables.
var servicePath = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// Add adds a service. It starts when the one that was added before it answers, or has failed. answers succeeds when it
// serves, and heard gets the text of every line that it logs.
func (s *Services) Add(
	name, program string, args []string, answers func(context.Context) error, heard func(text string),
) (*Service, error) {
	output, err := process.NewOutput(name, func(line process.Line) {
		s.Heard(line)
		heard(line.Text)
	})
	if err != nil {
		return nil, err
	}
	one := &Service{
		name: name, answers: answers, table: s.Table, output: output, log: s.Log,
		command: process.Command{Path: program, Args: args, Env: servicePath, Dir: "/", Stdout: output.File(), Stderr: output.File()},
		tried:   make(chan struct{}), over: make(chan struct{}),
		now: Status{Name: name, State: Waiting, Since: time.Now()},
	}
	if len(s.all) > 0 {
		one.after = s.all[len(s.all)-1]
	}
	one.wanted, one.stop = context.WithCancel(context.Background())
	one.patience, one.kill = context.WithCancel(context.Background())
	one.publish()
	s.all = append(s.all, one)
	return one, nil
}

// Stop has the service end by SIGTERM. It does not wait for that.
func (s *Service) Stop() { s.stop() }

// reload has the service read its configuration anew, if it runs. One that starts reads it then.
func (s *Service) reload() {
	if p := s.current.Load(); p != nil {
		_ = p.Signal(unix.SIGHUP) // over, and the next one reads it
	}
}

// refuse keeps why the next configuration is refused; nil: it is not.
func (s *Service) refuse(err error) { s.refused.Store(&err) }

// supervise starts the service, and starts it again after a pause whenever it has ended,
// until it is to stop.
func (s *Service) supervise() {
	defer close(s.over)
	s.awaitTurn()
	var restarts backoff.Restarts
	for s.wanted.Err() == nil {
		uptime := s.run()
		if s.wanted.Err() != nil {
			break
		}
		s.enter(Backoff)
		select {
		case <-time.After(restarts.Pause(uptime)):
			s.now.Restarts++
		case <-s.wanted.Done():
		}
	}
	s.enter(Stopped)
}

// awaitTurn waits for the service that comes before this one. A service that has failed
// keeps nobody waiting for ever.
func (s *Service) awaitTurn() {
	if s.after == nil {
		return
	}
	select {
	case <-s.after.tried:
	case <-s.wanted.Done():
	}
}

// run starts a process and waits for its end. It returns how long it has lived.
func (s *Service) run() (uptime time.Duration) {
	s.enter(Starting)
	p, err := s.table.Start(s.command)
	if err != nil {
		s.now.Reason = err.Error()
		return 0
	}
	s.current.Store(p)
	s.now.PID = p.PID()
	s.publish()
	if s.started != nil {
		s.started(p.PID())
	}
	life, end := context.WithCancel(s.wanted)
	go func() {
		<-p.Done()
		end()
	}()
	s.awaitAnswer(life)
	<-life.Done()
	if s.wanted.Err() != nil {
		s.terminate(p)
	}
	s.output.Flush()
	s.now.PID, s.now.Reason = 0, p.Status().String()
	return time.Since(p.Started())
}

// awaitAnswer asks until the service answers, or its process has ended.
func (s *Service) awaitAnswer(life context.Context) {
	for tries := 1; life.Err() == nil; tries++ {
		question, cancel := context.WithTimeout(life, questionLimit)
		err := s.answers(question)
		cancel()
		switch {
		case life.Err() != nil:
			return
		case err == nil:
			s.now.Reason = ""
			s.enter(Running)
			return
		}
		s.now.Reason = err.Error()
		s.publish()
		if tries == patientTries {
			s.report(slog.LevelWarn)
		}
		select {
		case <-time.After(backoff.Grow(backoff.FirstTry, tries-1, backoff.LastTry)):
		case <-life.Done():
		}
	}
}

// terminate sends SIGTERM, and SIGKILL when the time for that is over.
func (s *Service) terminate(p *process.Process) {
	s.enter(Stopping)
	patience, cancel := context.WithTimeout(s.patience, stopLimit)
	defer cancel()
	p.Stop(patience, unix.SIGTERM)
}

// enter goes over to a state.
func (s *Service) enter(state State) {
	s.now.State, s.now.Since = state, time.Now()
	s.publish()
	level := slog.LevelInfo
	if state == Backoff {
		level = slog.LevelWarn
	}
	s.report(level)
	if state == Waiting || state == Starting {
		return
	}
	select {
	case <-s.tried:
	default:
		close(s.tried)
	}
}

func (s *Service) publish() {
	now := s.now
	s.status.Store(&now)
}

func (s *Service) report(level slog.Level) {
	s.log(level, "service", slog.String("service", s.name), slog.String("state", string(s.now.State)), slog.String("reason", s.now.Reason))
}
