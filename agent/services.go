package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/process"
)

// service is a helper in the world. Only the owner touches its helper and its process.
type service struct {
	name string
	// after is the name of the service that should answer before this one starts.
	after   string
	command process.Command
	// answers succeeds when it serves.
	answers func(context.Context) error
	// output is where its lines come from.
	output *process.Output

	helper  helper
	since   time.Time
	process *process.Process
}

// ofService is an event of the service with that number.
type ofService struct {
	number int
	helperEvent
}

func (ofService) event() {}

// newService gives a service its output; every line is passed to heard first.
func (a *Agent) newService(s service, heard func(text string)) (*service, error) {
	var err error
	s.output, err = process.NewOutput(s.name, func(line process.Line) {
		a.Observe(Notice{Level: line.Level, Source: line.Source, Text: line.Text})
		heard(line.Text)
	})
	if err != nil {
		return nil, err
	}
	s.command.Stdout, s.command.Stderr, s.command.Dir = s.output.File(), s.output.File(), "/"
	s.helper, s.since = newHelper(), time.Now()
	return &s, nil
}

// wantServices wants those whose turn it is: one that has failed keeps nobody
// waiting for ever.
func (a *Agent) wantServices() []event {
	settled := map[string]bool{"": true}
	for _, s := range a.services {
		settled[s.name] = s.helper.state != HelperWaiting && s.helper.state != HelperStarting
	}
	var events []event
	for i, s := range a.services {
		if s.helper.state == HelperWaiting && settled[s.after] {
			events = append(events, ofService{i, helperWanted{}})
		}
	}
	return events
}

// stopService stops one for good.
func (a *Agent) stopService(name string) []event {
	for i, s := range a.services {
		if s.name == name {
			return []event{ofService{i, helperUnwanted{}}}
		}
	}
	return nil
}

// stepService is step for a service.
func (a *Agent) stepService(e ofService) []event {
	s := a.services[e.number]
	before := s.helper
	var actions []helperAction
	s.helper, actions = s.helper.step(e.helperEvent)
	if s.helper.state != before.state {
		s.since = time.Now()
	}
	a.publishServices()
	a.tellService(s, before)
	var events []event
	for _, action := range actions {
		events = append(events, a.performService(e.number, action)...)
	}
	return append(events, a.wantServices()...)
}

func (a *Agent) performService(number int, act helperAction) []event {
	s := a.services[number]
	post := func(e helperEvent) { a.post(ofService{number, e}) }
	switch act := act.(type) {
	case startHelper:
		return []event{ofService{number, a.startService(s, post)}}
	case askHelper:
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
			defer cancel()
			post(helperAnswered{act.number, s.answers(ctx)})
		}()
	case armHelper:
		time.AfterFunc(act.after, func() { post(helperTimer{act.number}) })
	case signalHelper:
		_ = s.process.Signal(act.signal) // it is over, which is reported
	default:
		panic(fmt.Sprintf("perform: no such action for a helper: %T", act))
	}
	return nil
}

func (a *Agent) startService(s *service, post func(helperEvent)) helperEvent {
	p, err := a.Table.Start(s.command)
	if err != nil {
		return helperFailed{err}
	}
	s.process = p
	go func() {
		<-p.Done()
		s.output.Flush()
		post(helperExited{p.PID(), p.Status().String(), time.Since(p.Started())})
	}()
	return helperStarted{p.PID()}
}

// servicesEnd is how long services have to end once the daemon has: the rest of
// the grace period is at least as long.
const servicesEnd = 400 * time.Millisecond

// endServices ends those that still live when everything else is over.
func (a *Agent) endServices() {
	ctx, cancel := context.WithTimeout(context.Background(), servicesEnd)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range a.services {
		if s.process != nil {
			all.Go(func() { s.process.Stop(ctx, unix.SIGTERM) })
		}
	}
	all.Wait()
}

// ServiceStatus is a helper service beside the daemon.
type ServiceStatus struct {
	Name   string      `json:"name"`
	State  HelperState `json:"state"`
	Since  time.Time   `json:"since"`
	Reason string      `json:"reason,omitempty"`
	PID    int         `json:"pid,omitempty"`
	// Restarts counts its starts after the first.
	Restarts int `json:"restarts"`
}

func (a *Agent) publishServices() {
	var all []ServiceStatus
	for _, s := range a.services {
		all = append(all, ServiceStatus{s.name, s.helper.state, s.since, s.helper.reason, s.helper.pid, s.helper.starts})
	}
	a.servicesStatus.Store(&all)
}

func (a *Agent) tellService(s *service, before helper) {
	now := s.helper
	if now.state == before.state && (now.tries < patience || before.tries >= patience) {
		return
	}
	level := slog.LevelInfo
	if now.state == HelperBackoff || now.state == HelperStarting && now.tries >= patience {
		level = slog.LevelWarn
	}
	a.tell(level, "service", slog.String("service", s.name), slog.String("state", string(now.state)), slog.String("reason", now.reason))
}

// connects says whether somebody takes connections at an address.
func connects(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
