package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/devices"
	"github.com/slurmlet/slurmlet/internal/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// questionLimit bounds one question to slurmctld. It is above scontrol's own
// MessageTimeout of 10 s (slurm.conf(5)).
const questionLimit = 15 * time.Second

// perform does one action. What is known at once comes back as events; the
// rest is posted later.
func (a *Agent) perform(act action) []event {
	switch act := act.(type) {
	case startMain:
		return []event{a.start()}
	case signalMain:
		a.signal(act.signal)
	case reach:
		a.inquire(func(ctx context.Context) event { return a.reachQuestion(ctx, act.number) })
	case ask:
		question := a.confirmQuestion
		switch {
		case a.life.state == Stopping:
			question = a.withdrawQuestion
		case a.life.registers:
			question = a.nodeQuestion
		case a.life.doing == doubting:
			question = a.reachQuestion
		}
		a.inquire(func(ctx context.Context) event { return question(ctx, act.number) })
	case speak:
		a.inquire(func(ctx context.Context) event { return carriedOut{act.number, a.speak(ctx)} })
	case deleteRecord:
		a.inquire(func(ctx context.Context) event {
			return carriedOut{act.number, a.client.DeleteNode(ctx, a.Config.NodeName)}
		})
	case drainRecord:
		a.inquire(func(ctx context.Context) event {
			return carriedOut{act.number, a.client.DrainNode(ctx, a.Config.NodeName, act.reason)}
		})
	case resumeRecord:
		a.inquire(func(ctx context.Context) event {
			return carriedOut{act.number, a.client.ResumeNode(ctx, a.Config.NodeName)}
		})
	case endDeadJobs:
		a.inquire(func(ctx context.Context) event { return carriedOut{act.number, a.endDeadJobs(ctx)} })
	case seekLost:
		a.inquire(func(ctx context.Context) event {
			lost, err := a.lostJobs(ctx)
			return lostSought{act.number, lost, err}
		})
	case updateRecord:
		a.inquire(func(ctx context.Context) event {
			return carriedOut{act.number, a.client.UpdateNode(ctx, a.Config.NodeName, act.fields)}
		})
	case arm:
		time.AfterFunc(a.life.spread(act.after), func() { a.post(timerFired{act.number}) })
	case schedule:
		time.AfterFunc(act.after, func() { a.post(deadline{act.stage}) })
	case countSteps:
		go func() { a.post(stepsCounted{act.number, len(a.stepSockets())}) }()
	case signalJobs:
		go a.signalJobs()
	case requeueJobs:
		a.inquire(func(ctx context.Context) event { return carriedOut{act.number, a.requeueJobs(ctx)} })
	case killRequeued:
		go a.killRequeued()
	case failRecord:
		a.inquire(func(ctx context.Context) event {
			return carriedOut{act.number, a.client.FailNode(ctx, a.Config.NodeName, act.reason)}
		})
	case endSteps:
		go a.endSteps(act.kill)
	case holdSteps:
		a.holdSteps()
	case killSteps:
		a.killSteps()
	case seeOff:
		a.login.DrainSessions(act.until, func() { a.post(sessionsOver{}) })
	case warnSessions:
		a.login.WarnSessions(act.until)
	case endSessions:
		a.login.EndSessions(act.kill)
	case exit:
		if a.cancelQuestion != nil {
			a.cancelQuestion()
		}
	default:
		if a.performReload(act) {
			return nil
		}
		panic(fmt.Sprintf("perform: no such action: %T", act))
	}
	return nil
}

// spread makes a thousand nodes not ask a new slurmctld at once, nor one that
// was away when all of them got SIGTERM. A deadline stays what it is.
func (l life) spread(wait time.Duration) time.Duration {
	switch l.doing {
	case ending, replacing:
		return wait
	case nothing: // nobody waits for it
		return wait + rand.N(wait)
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/5+1))
}

func (a *Agent) reachQuestion(ctx context.Context, number int) event {
	return answered{number: number, err: a.daemon.reach(a, ctx), steps: a.stepsHere()}
}

// stepsHere counts the steps of a node.
func (a *Agent) stepsHere() int {
	if !a.daemon.registers {
		return 0
	}
	return len(a.stepSockets())
}

// confirmQuestion: a daemon that does not answer often says why.
func (a *Agent) confirmQuestion(ctx context.Context, number int) event {
	err := a.daemon.confirm(a, ctx)
	if said := a.lastWords(); err != nil && said != "" {
		err = fmt.Errorf("%w; %s: %s", err, a.daemon.program, said)
	}
	return answered{number: number, err: err}
}

// lastWords is the last error of the living daemon, empty for none.
func (a *Agent) lastWords() string {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	last := a.lastError.Load()
	if last == nil || a.main == nil || last.At.Before(a.main.Started()) {
		return ""
	}
	return last.Text
}

func (a *Agent) ping(ctx context.Context) error { return a.client.Ping(ctx) }

func (a *Agent) nodeQuestion(ctx context.Context, number int) event {
	node, err := a.client.Node(ctx, a.Config.NodeName)
	if err == nil && node != nil {
		err = a.knownGres(ctx, node)
	}
	e := answered{number: number, node: node, err: err}
	e.main, e.began = a.beganByNow(a.mainProcess())
	if err == nil && node != nil && node.Busy() {
		e.steps = len(a.stepSockets())
	}
	return e
}

// knownGres asks what slurmctld knows of at all when its record has not what
// was registered: of other names it tells nobody.
func (a *Agent) knownGres(ctx context.Context, n *slurm.Node) error {
	if !a.gres.Gres.Differs(devices.Recorded(n.Gres), nil) {
		return nil
	}
	cluster, err := a.client.Config(ctx)
	if err != nil {
		return err
	}
	n.GresTypes = strings.Split(cluster["GresTypes"], ",")
	return nil
}

// reachController succeeds when one slurmctld takes connections. A slurmd that
// cannot get its configuration asks again only after 10 s.
func (a *Agent) reachController(ctx context.Context) error {
	var faults []error
	for address := range strings.SplitSeq(a.Config.Controller, ",") {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		faults = append(faults, fmt.Errorf("cannot reach slurmctld: %w", err))
	}
	return errors.Join(faults...)
}

// inquire asks slurmctld in the background; a question that is open still is
// given up.
func (a *Agent) inquire(question func(context.Context) event) {
	if a.cancelQuestion != nil {
		a.cancelQuestion()
	}
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	a.cancelQuestion = cancel
	go func() {
		defer cancel()
		a.post(question(ctx))
	}()
}

var signals = map[mainSignal]unix.Signal{sigTerm: unix.SIGTERM, sigHup: unix.SIGHUP, sigKill: unix.SIGKILL}

func (a *Agent) signal(s mainSignal) {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	if a.main == nil {
		return
	}
	err := a.main.Signal(signals[s])
	if err != nil && !errors.Is(err, process.ErrExited) {
		a.tell(slog.LevelError, "cannot signal the daemon", slog.Any("error", err), slog.String("signal", string(s)))
	}
}
