package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/systemd"
)

// own is the owner: it alone touches a.life.
func (a *Agent) own() int {
	a.slurmdNode.SetHangLimit(a.life.Deadlines.HangLimit())
	a.helpers.Start()
	a.userSessions.Start(a.alive)
	queue := []lifecycle.Event{supervisor.Begun{}}
	if a.slurmdNode.Relaunched() { // an earlier agent's
		queue = append(queue, node.LaunchRefused{})
	}
	for {
		for len(queue) > 0 {
			e := queue[0]
			queue = queue[1:]
			if a.unit.Take(e, lifeOf(a.life)) {
				continue
			}
			switch e.(type) {
			case supervisor.Troubled:
				a.doubted.Store(false)
			case supervisor.HungUp:
				a.unit.Reload(lifeOf(a.life))
			}
			next, actions := lifecycle.Step(a.life, e)
			a.publish(next)
			a.unit.Follow(lifeOf(next))
			if next.Registers && next.Phase == supervisor.Stopping && a.life.Phase != supervisor.Stopping {
				a.client.Turns.Open()
				go a.slurmdNode.CheckWhileStopping()
			}
			a.life = next
			a.slurmdNode.SetHangLimit(next.Deadlines.HangLimit())
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

// lifeOf is what systemd is told of a state.
func lifeOf(l lifecycle.State) systemd.Life {
	words := []string{string(l.Phase)}
	for _, more := range []string{l.Activity.String(), l.Reason} {
		if more != "" {
			words = append(words, more)
		}
	}
	return systemd.Life{
		Text: strings.Join(words, ", "), Main: l.Main, Announces: l.Announces,
		Serving: l.Phase.Serving(), Reloading: l.Phase == supervisor.Reloading, Over: l.IsOver(),
	}
}

// watchSignals makes events of signals, and one of the end of ctx.
func (a *Agent) watchSignals(ctx context.Context) {
	interrupted := false // SIGINT was received
	for {
		select {
		case s := <-a.Signals:
			a.signalled(s, interrupted)
			if s == unix.SIGINT && !interrupted {
				interrupted = true
				a.log(slog.LevelInfo, "SIGINT received: a second one stops the daemon at once, whatever runs")
			}
		case <-ctx.Done():
			a.post(supervisor.Terminated{At: time.Now(), Signal: "the context's end"})
			return
		case <-a.alive.Done():
			return
		}
	}
}

// signalled: what ends a container ends the daemon in order, whichever signal
// the image has chosen for it.
func (a *Agent) signalled(s os.Signal, interrupted bool) {
	switch s {
	case unix.SIGHUP:
		a.post(supervisor.HungUp{})
	case unix.SIGQUIT:
		a.dump()
	default:
		name := cmp.Or(unix.SignalName(s.(unix.Signal)), s.String())
		now := time.Now()
		a.post(supervisor.Terminated{At: now, Signal: name, Again: s == unix.SIGINT && interrupted, Idle: a.slurmdNode.IsIdle()})
	}
}

// perform does one action. What is known at once comes back as events; the
// rest is posted later.
func (a *Agent) perform(act lifecycle.Action) []lifecycle.Event {
	switch act := act.(type) {
	case supervisor.StartMain:
		return []lifecycle.Event{a.start()}
	case supervisor.SignalMain:
		a.main.Signal(mainSignals[act.Signal])
	case supervisor.Reach:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.reachQuestion(ctx, act.Number) })
	case supervisor.Confirm:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.confirmQuestion(ctx, act.Number) })
	case supervisor.Arm:
		time.AfterFunc(spread(a.life, act.After, a.follower.Spread()), func() { a.post(supervisor.TimerFired{Number: act.Number}) })
	case deadlines.Schedule:
		time.AfterFunc(act.After, func() { a.post(deadlines.DeadlinePassed{Stage: act.Stage}) })
	case sessions.DrainSessions:
		a.userSessions.DrainSessions(act.Until, func() { a.post(sessions.SessionsOver{}) })
	case sessions.WarnSessions:
		a.userSessions.WarnSessions(act.Until)
	case sessions.EndSessions:
		a.userSessions.EndSessions(act.Kill)
	case supervisor.Exit:
		a.exit()
	case conf.ArmReload:
		time.AfterFunc(act.After, func() { a.post(conf.ReloadTimerFired{Number: act.Number}) })
	case conf.Check, conf.CheckFirst, conf.AwaitLaunches, conf.Place, conf.Reconfigure, conf.AskNodes, conf.Keep:
		a.ctld.Do(act)
	default:
		if a.slurmdNode == nil || !a.slurmdNode.Perform(act) {
			panic(fmt.Sprintf("perform: no such action: %T", act))
		}
	}
	return nil
}

// exit ends what still runs here when the daemon's life is over.
func (a *Agent) exit() {
	a.client.GiveUp()
	a.slurmdNode.KillSteps()
	a.helpers.Close()
	a.kiosk.Close()
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
	err := a.daemon.reach(ctx, a)
	return node.Answered{Number: number, Err: err, Late: isLate(err), Steps: a.slurmdNode.CountSteps()}
}

// isLate: the question has taken all of node.QuestionLimit.
func isLate(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// confirmQuestion: a daemon that does not answer often says why.
func (a *Agent) confirmQuestion(ctx context.Context, number int) lifecycle.Event {
	err := a.daemon.confirm(ctx, a)
	if said := a.main.LastWords(); err != nil && said != "" {
		err = fmt.Errorf("%w; %s: %s", err, a.daemon.program, said)
	}
	return node.Answered{Number: number, Err: err, Late: isLate(err)}
}

// inquire asks in the background; a question that is open still is given up.
func (a *Agent) inquire(question func(context.Context) lifecycle.Event) {
	a.client.Inquire(func(ctx context.Context) { a.post(question(ctx)) })
}

var mainSignals = map[supervisor.MainSignal]unix.Signal{
	supervisor.SigTerm: unix.SIGTERM, supervisor.SigHup: unix.SIGHUP, supervisor.SigKill: unix.SIGKILL,
}

// dump logs all there is to know about the agent, for whoever looks for a fault.
func (a *Agent) dump() {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	a.log(slog.LevelInfo, "SIGQUIT received", slog.Any("status", a.Status()), slog.String("goroutines", string(stacks)))
}
