// Package login runs what users come in by: sshd, sssd before it, and their sessions.
package login

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/login/sshd"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// Options are the surroundings of a Login.
type Options struct {
	// Root is where the machine's file system begins: "/" but in tests.
	Root string
	// RunDir is the agent's own directory.
	RunDir string
	// SSSDConfig is a file. Where it is missing, no sssd runs.
	SSSDConfig string
	// SSHD and KeyGen are programs; without SSHD nobody can log in.
	SSHD, KeyGen string
	// SSHDConfig is a file, HostKeys and AuthorizedKeys are directories.
	SSHDConfig, HostKeys, AuthorizedKeys string

	// Cgroups say whether sessions have cgroups.
	Cgroups Cgroups

	Table *process.Table
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
	// Heard gets the lines that sshd and sssd log.
	Heard func(process.Line)
}

// Login is sshd, sssd and the users' sessions.
type Login struct {
	Options
	services       []*service
	logins         sshd.Logins
	sessionCgroups *sessionCgroups
	// count is how many sessions there are; accepted holds a value when there may be another.
	count    atomic.Int64
	accepted chan struct{}
}

// Open prepares the services. It starts none.
func Open(o Options) (*Login, error) {
	l := &Login{Options: o, accepted: make(chan struct{}, 1)}
	directory, err := l.sssd()
	if err != nil {
		return nil, err
	}
	if directory != nil {
		l.services = append(l.services, directory)
	}
	if o.SSHD == "" {
		return l, nil
	}
	if l.sessionCgroups, err = o.delegate(); err != nil {
		return nil, err
	}
	server, err := l.sshd()
	if err != nil {
		return nil, err
	}
	server.after = directory
	l.services = append(l.services, server)
	return l, nil
}

// Start starts the services, and counts the sessions from now on.
func (l *Login) Start() {
	for _, s := range l.services {
		go s.supervise()
	}
	if l.SSHD != "" {
		go l.countSessions()
	}
}

// closeLimit is how long services have to end once the daemon has: the rest of
// the grace period is at least as long.
const closeLimit = 400 * time.Millisecond

// Close ends the services that still live when everything else is over.
func (l *Login) Close() {
	for _, s := range l.services {
		s.stop()
	}
	late := time.AfterFunc(closeLimit, func() {
		for _, s := range l.services {
			s.kill()
		}
	})
	defer late.Stop()
	for _, s := range l.services {
		<-s.over
	}
}

// Services are those that there are.
func (l *Login) Services() []ServiceStatus {
	var all []ServiceStatus
	for _, s := range l.services {
		all = append(all, *s.status.Load())
	}
	return all
}
