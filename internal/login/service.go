package login

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// ServiceState says whether a service runs, and slurmlet status prints it.
type ServiceState string

// The states of a service.
const (
	Waiting  ServiceState = "Waiting"  // for the service that comes before it
	Starting ServiceState = "Starting" // it does not answer yet
	Running  ServiceState = "Running"
	Backoff  ServiceState = "Backoff" // it has ended and is started again after a pause
	Stopping ServiceState = "Stopping"
	Stopped  ServiceState = "Stopped"
)

// ServiceStatus is a service beside the daemon.
type ServiceStatus struct {
	Name  string       `json:"name"`
	State ServiceState `json:"state"`
	Since time.Time    `json:"since"`
	// Reason is why it does not answer, or how it ended last.
	Reason string `json:"reason,omitempty"`
	PID    int    `json:"pid,omitempty"`
	// Restarts counts its starts after the first.
	Restarts int `json:"restarts"`
}

// service is a service and the goroutine that supervises it. Nothing of the daemon depends
// on it.
type service struct {
	name    string
	command process.Command
	// answers succeeds when it serves.
	answers func(context.Context) error
	// after is the service that should answer before this one starts; nil: none.
	after *service

	table  *process.Table
	output *process.Output
	log    func(level slog.Level, text string, attrs ...slog.Attr)
	// wanted ends when the service is to stop, patience when it must be killed.
	wanted, patience context.Context
	stop, kill       context.CancelFunc
	// tried is closed when it has answered, or failed, for the first time, and over when its
	// goroutine has ended.
	tried, over chan struct{}
	// now is the goroutine's, status what others see of it.
	now    ServiceStatus
	status atomic.Pointer[ServiceStatus]
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

// newService of a command; heard gets the text of every line.
func (l *Login) newService(name, program string, args []string, answers func(context.Context) error,
	heard func(text string),
) (*service, error) {
	output, err := process.NewOutput(name, func(line process.Line) {
		l.Heard(line)
		heard(line.Text)
	})
	if err != nil {
		return nil, err
	}
	s := &service{
		name: name, answers: answers, table: l.Table, output: output, log: l.Log,
		command: process.Command{Path: program, Args: args, Env: servicePath, Dir: "/", Stdout: output.File(), Stderr: output.File()},
		tried:   make(chan struct{}), over: make(chan struct{}),
		now: ServiceStatus{Name: name, State: Waiting, Since: time.Now()},
	}
	s.wanted, s.stop = context.WithCancel(context.Background())
	s.patience, s.kill = context.WithCancel(context.Background())
	s.publish()
	return s, nil
}

// supervise starts the service, and starts it again after a pause whenever it has ended,
// until it is to stop.
func (s *service) supervise() {
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
func (s *service) awaitTurn() {
	if s.after == nil {
		return
	}
	select {
	case <-s.after.tried:
	case <-s.wanted.Done():
	}
}

// run starts a process and waits for its end. It returns how long it has lived.
func (s *service) run() (uptime time.Duration) {
	s.enter(Starting)
	p, err := s.table.Start(s.command)
	if err != nil {
		s.now.Reason = err.Error()
		return 0
	}
	s.now.PID = p.PID()
	s.publish()
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
func (s *service) awaitAnswer(life context.Context) {
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
func (s *service) terminate(p *process.Process) {
	s.enter(Stopping)
	patience, cancel := context.WithTimeout(s.patience, stopLimit)
	defer cancel()
	p.Stop(patience, unix.SIGTERM)
}

// enter goes over to a state.
func (s *service) enter(state ServiceState) {
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

func (s *service) publish() {
	now := s.now
	s.status.Store(&now)
}

func (s *service) report(level slog.Level) {
	s.log(level, "service", slog.String("service", s.name), slog.String("state", string(s.now.State)), slog.String("reason", s.now.Reason))
}
