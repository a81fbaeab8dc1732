// Package login runs what a login pod has for its users: sshd, and their sessions.
package login

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/login/gateway"
	"github.com/slurmlet/slurmlet/internal/pod/people"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/services"
	"github.com/slurmlet/slurmlet/internal/pod/sshd"
)

// Options are the surroundings of a Login.
type Options struct {
	// Root is where the machine's file system begins: "/" but in tests.
	Root string
	// Services get SSHD, which Open has heard by the Login.
	Services *services.Services
	SSHD     services.SSHD
	// CgroupMode says whether users have cgroups of their own, with Limits. One that is zero is derived from the pod's.
	CgroupMode cgroup.Mode
	Limits     cgroup.UserLimits
	// EndLeavers says whether the sessions of those who have left are ended.
	EndLeavers bool

	Table *process.Table
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
}

// Login is sshd and the users' sessions. A nil Login is that of another role, which has no sessions.
type Login struct {
	Options
	server      *services.Service
	logins      sshd.Logins
	userCgroups *userCgroups
	// leaverKeeper ends the sessions of those who have left, nil where nobody does.
	leaverKeeper *people.Keeper
	// gateway submits jobs of Kubernetes' pods, nil where nobody does.
	gateway *gateway.Gateway
	// count is how many sessions there are; accepted holds a value when there may be another.
	count    atomic.Int64
	accepted chan struct{}
}

// Open prepares sshd. It starts nothing.
func Open(o Options) (*Login, error) {
	l := &Login{Options: o, accepted: make(chan struct{}, 1)}
	var err error
	if l.userCgroups, err = l.limitUsers(); err != nil {
		return nil, err
	}
	o.SSHD.Heard, o.SSHD.Started = l.heard, l.userCgroups.addSSHD
	if l.server, err = l.Services.AddSSHD(o.SSHD); err != nil {
		return nil, err
	}
	if l.EndLeavers {
		l.leaverKeeper = l.newLeavers()
	}
	return l, nil
}

// Start counts the sessions from now on, and ends those of leavers until ctx ends.
func (l *Login) Start(ctx context.Context) {
	if l != nil {
		go l.countSessions()
		go l.leaverKeeper.Run(ctx)
		go l.gateway.Run(ctx)
	}
}

// OpenGateway has the pod be a gateway of slurmlet's controller, before Start.
func (l *Login) OpenGateway(o gateway.Options) { l.gateway = gateway.New(o) }

// GatewayStatus is the gateway's status, nil of a pod without one.
func (l *Login) GatewayStatus() *gateway.Status {
	if l == nil {
		return nil
	}
	return l.gateway.Status()
}
