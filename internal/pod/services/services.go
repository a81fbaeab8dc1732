// Package services runs daemons beside a container's main process: sssd in slurmd's and login pods, and sshd in
// login pods and where users with a job come in. Nothing of the main process depends on them.
package services

import (
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// Options are the surroundings of Services.
type Options struct {
	Table *process.Table
	Log   func(level slog.Level, text string, attrs ...slog.Attr)
	// Heard gets the lines that the services log.
	Heard func(process.Line)
}

// Services are those of a container, in the order in which they start.
type Services struct {
	Options
	all []*Service
}

// New has no service yet.
func New(o Options) *Services { return &Services{Options: o} }

// Start starts the services.
func (s *Services) Start() {
	for _, one := range s.all {
		go one.supervise()
	}
}

// closeLimit is how long services have to end once the daemon has: the rest of
// the grace period is at least as long.
const closeLimit = 400 * time.Millisecond

// Close ends the services that still live when everything else is over.
func (s *Services) Close() {
	for _, one := range s.all {
		one.stop()
	}
	late := time.AfterFunc(closeLimit, func() {
		for _, one := range s.all {
			one.kill()
		}
	})
	defer late.Stop()
	for _, one := range s.all {
		<-one.over
	}
}

// Statuses has one of each service, in their order. Any goroutine may call it.
func (s *Services) Statuses() []Status {
	var all []Status
	for _, one := range s.all {
		status := *one.status.Load()
		if err := one.refused.Load(); err != nil && *err != nil {
			status.Refused = (*err).Error()
		}
		all = append(all, status)
	}
	return all
}
