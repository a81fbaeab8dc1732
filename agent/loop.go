package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// own is the owner: it alone touches a.life.
func (a *Agent) own() int {
	defer close(a.over)
	a.node.SetHangLimit(a.life.Deadlines.HangLimit())
	a.loginServices.Start()
	queue := []lifecycle.Event{supervisor.Begun{}}
	if a.node.Relaunched() { // an earlier agent's
		queue = append(queue, node.LaunchRefused{})
	}
	for {
		for len(queue) > 0 {
			e := queue[0]
			queue = queue[1:]
			if a.ofUnit(e) {
				continue
			}
			switch e.(type) {
			case supervisor.Troubled:
				a.doubted.Store(false)
			case supervisor.HungUp:
				a.informOfReload()
			}
			next, actions := lifecycle.Step(a.life, e)
			a.publish(next)
			a.inform(a.unit.follow(next))
			if next.Registers && next.Phase == supervisor.Stopping && a.life.Phase != supervisor.Stopping {
				a.turns.end()
				go a.node.CheckWhileStopping()
			}
			a.life = next
			a.node.SetHangLimit(next.Deadlines.HangLimit())
			for _, action := range actions {
				queue = append(queue, a.perform(action)...)
			}
		}
		if a.life.Phase == supervisor.Exited {
			return a.life.Code
		}
		queue = append(queue, <-a.events)
	}
}

// post hands an event to the owner; after the end nobody is interested.
func (a *Agent) post(e lifecycle.Event) {
	select {
	case a.events <- e:
	case <-a.over:
	}
}

// signalled: what ends a container ends the daemon in order, whichever signal
// the image has chosen for it.
func (a *Agent) signalled(s os.Signal) {
	switch s {
	case unix.SIGHUP:
		a.post(supervisor.HungUp{})
	case unix.SIGQUIT:
		a.dump()
	default:
		name := cmp.Or(unix.SignalName(s.(unix.Signal)), s.String())
		now := time.Now()
		a.post(supervisor.Terminated{At: now, Signal: name, Again: s == unix.SIGINT && a.interrupted, Idle: a.node.IsIdle()})
		if s == unix.SIGINT && !a.interrupted {
			a.interrupted = true
			a.log(slog.LevelInfo, "SIGINT received: a second one stops the daemon at once, whatever runs")
		}
	}
}

// perform does one action. What is known at once comes back as events; the
// rest is posted later.
func (a *Agent) perform(act lifecycle.Action) []lifecycle.Event {
	switch act := act.(type) {
	case supervisor.StartMain:
		return []lifecycle.Event{a.start()}
	case supervisor.SignalMain:
		a.signal(act.Signal)
	case supervisor.Reach:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.reachQuestion(ctx, act.Number) })
	case supervisor.Confirm:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.confirmQuestion(ctx, act.Number) })
	case supervisor.Arm:
		time.AfterFunc(spread(a.life, act.After, a.follower.Spread()), func() { a.post(supervisor.TimerFired{Number: act.Number}) })
	case deadlines.Schedule:
		time.AfterFunc(act.After, func() { a.post(deadlines.DeadlinePassed{Stage: act.Stage}) })
	case sessions.DrainSessions:
		a.loginServices.DrainSessions(act.Until, func() { a.post(sessions.SessionsOver{}) })
	case sessions.WarnSessions:
		a.loginServices.WarnSessions(act.Until)
	case sessions.EndSessions:
		a.loginServices.EndSessions(act.Kill)
	case supervisor.Exit:
		a.exit()
	case conf.ArmReload:
		time.AfterFunc(act.After, func() { a.post(conf.ReloadTimerFired{Number: act.Number}) })
	case conf.Check, conf.CheckFirst, conf.AwaitLaunches, conf.Place, conf.Reconfigure, conf.AskNodes, conf.Keep:
		a.ctld.Do(act)
	default:
		if a.node == nil || !a.node.Perform(act) {
			panic(fmt.Sprintf("perform: no such action: %T", act))
		}
	}
	return nil
}

// exit ends what still runs here when the daemon's life is over.
func (a *Agent) exit() {
	if a.cancelQuestion != nil {
		a.cancelQuestion()
	}
	a.node.KillSteps()
	a.loginServices.Close()
	a.killSackd()
}

// spread makes a thousand nodes not ask a new slurmctld at once, nor one that
// was away when all of them got SIGTERM. A deadline stays what it is. Where nobody waits for the
// answer, all nodes together ask within the time that the cluster needs.
func spread(l lifecycle.State, wait, cluster time.Duration) time.Duration {
	switch {
	case l.Activity == supervisor.Ending, l.Activity == supervisor.Replacing:
		return wait
	case l.Activity == supervisor.Idle:
		return wait + rand.N(max(wait, cluster))
	case l.Phase == supervisor.Reloading && l.Tries == 0:
		return wait + rand.N(max(wait/5, cluster))
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/5+1))
}

func (a *Agent) reachQuestion(ctx context.Context, number int) lifecycle.Event {
	err := a.daemon.reach(a, ctx)
	return node.Answered{Number: number, Err: err, Late: isLate(err), Steps: a.node.Steps()}
}

// isLate: the question has taken all of questionLimit.
func isLate(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// confirmQuestion: a daemon that does not answer often says why.
func (a *Agent) confirmQuestion(ctx context.Context, number int) lifecycle.Event {
	err := a.daemon.confirm(a, ctx)
	if said := a.lastWords(); err != nil && said != "" {
		err = fmt.Errorf("%w; %s: %s", err, a.daemon.program, said)
	}
	return node.Answered{Number: number, Err: err, Late: isLate(err)}
}

// lastWords is the last error of the living daemon, empty for none.
func (a *Agent) lastWords() string {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	last := a.lastSaid.Load()
	if last == nil || a.process == nil || last.At.Before(a.process.Started()) {
		return ""
	}
	return last.Text
}

func (a *Agent) ping(ctx context.Context) error { return a.client.Ping(ctx) }

// reachController succeeds when one slurmctld takes connections. A slurmd that
// cannot get its configuration asks again only after 10 s.
func (a *Agent) reachController(ctx context.Context) error {
	var faults []error
	for _, address := range a.controllerAddresses() {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		faults = append(faults, fmt.Errorf("cannot reach slurmctld: %w", err))
	}
	return errors.Join(faults...)
}

// controllerAddresses are where slurmctld may be: by the peers' table, and then by its name.
func (a *Agent) controllerAddresses() (all []string) {
	for address := range strings.SplitSeq(a.Config.Controller, ",") {
		host, port, _ := net.SplitHostPort(address) // parseControllers made it
		for _, one := range a.members.find(host) {
			all = append(all, net.JoinHostPort(one.String(), port))
		}
		all = append(all, address)
	}
	return all
}

// controllerPort is slurmctld's.
func (a *Agent) controllerPort() string {
	first, _, _ := strings.Cut(a.Config.Controller, ",")
	_, port, _ := net.SplitHostPort(first) // parseControllers made it
	return port
}

// inquire asks slurmctld in the background; a question that is open still is
// given up.
func (a *Agent) inquire(question func(context.Context) lifecycle.Event) {
	if a.cancelQuestion != nil {
		a.cancelQuestion()
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.questionLimit())
	a.cancelQuestion = cancel
	go func() {
		defer cancel()
		a.post(question(ctx))
	}()
}
