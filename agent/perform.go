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

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/merge"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
)

// perform does one action. What is known at once comes back as events; the
// rest is posted later.
func (a *Agent) perform(act lifecycle.Action) []lifecycle.Event {
	switch act := act.(type) {
	case lifecycle.StartMain:
		return []lifecycle.Event{a.start()}
	case lifecycle.SignalMain:
		a.signal(act.Signal)
	case lifecycle.Reach:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.reachQuestion(ctx, act.Number) })
	case lifecycle.Confirm:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.confirmQuestion(ctx, act.Number) })
	case lifecycle.AskNode:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.nodeQuestion(ctx, act) })
	case lifecycle.AskJobs:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.askJobs(ctx, act) })
	case lifecycle.Change:
		conf := a.life.Size.Conf() + a.life.Traits.Conf() // the loop's own
		a.inquire(func(ctx context.Context) lifecycle.Event {
			return lifecycle.Done{Number: act.Number, Err: a.change(ctx, act, conf)}
		})
	case lifecycle.CompareCluster:
		a.checkMismatches()
	case lifecycle.FindLostJobs:
		a.inquire(func(ctx context.Context) lifecycle.Event { return a.findLost(ctx, act.Number) })
	case lifecycle.Arm:
		time.AfterFunc(spread(a.life, act.After, a.follower.Spread()), func() { a.post(lifecycle.TimerFired{Number: act.Number}) })
	case lifecycle.Schedule:
		time.AfterFunc(act.After, func() { a.post(lifecycle.DeadlinePassed{Stage: act.Stage}) })
	case lifecycle.CountSteps:
		go func() { a.post(lifecycle.StepsCounted{Number: act.Number, Steps: len(a.stepSockets())}) }()
	case lifecycle.SignalJobs:
		go a.signalJobs()
	case lifecycle.KillRequeued:
		go a.killRequeued()
	case lifecycle.EndSteps:
		go a.endSteps(act.Kill)
	case lifecycle.HoldSteps:
		a.holdSteps()
	case lifecycle.KillSteps:
		a.killSteps()
	case lifecycle.DrainSessions:
		a.loginServices.DrainSessions(act.Until, func() { a.post(lifecycle.SessionsOver{}) })
	case lifecycle.WarnSessions:
		a.loginServices.WarnSessions(act.Until)
	case lifecycle.EndSessions:
		a.loginServices.EndSessions(act.Kill)
	case lifecycle.Exit:
		a.exit()
	case conf.ArmReload:
		time.AfterFunc(act.After, func() { a.post(conf.ReloadTimerFired{Number: act.Number}) })
	case conf.Check, conf.CheckFirst, conf.AwaitLaunches, conf.Place, conf.Reconfigure, conf.AskNodes, conf.Keep:
		a.ctld.Do(act)
	default:
		panic(fmt.Sprintf("perform: no such action: %T", act))
	}
	return nil
}

// change changes the node record or its jobs. conf is what slurmd registers.
func (a *Agent) change(ctx context.Context, c lifecycle.Change, conf string) error {
	node := a.Config.NodeName
	if c.Verb != lifecycle.MendLaunch {
		a.releaseLast(ctx)
	}
	switch c.Verb {
	case lifecycle.DeleteAgain:
		return a.deleteAgain(ctx, conf)
	case lifecycle.DeleteNode:
		return a.remove(ctx, ask.Change{Verb: ask.Delete, Node: node, Conf: conf})
	case lifecycle.RenewNode:
		return a.remove(ctx, ask.Change{Verb: ask.Renew, Node: node, Conf: conf})
	case lifecycle.DrainNode:
		return a.asker.Change(ctx, ask.Change{Verb: ask.Drain, Node: node, Reason: c.Reason}, func(ctx context.Context) error { return a.client.DrainNode(ctx, node, c.Reason) })
	case lifecycle.ResumeNode:
		return a.resumeNode(ctx)
	case lifecycle.FailNode:
		return a.asker.Change(ctx, ask.Change{Verb: ask.Fail, Node: node, Reason: c.Reason}, func(ctx context.Context) error { return a.client.FailNode(ctx, node, c.Reason) })
	case lifecycle.PowerDownNode:
		return a.powerDown(ctx, c.Reason)
	case lifecycle.PowerOffNode:
		return a.asker.Change(ctx, ask.Change{Verb: ask.PowerOff, Node: node, Reason: c.Reason}, func(ctx context.Context) error { return a.client.PowerOffNode(ctx, node, c.Reason) })
	case lifecycle.UpdateNode:
		return a.client.UpdateNode(ctx, node, c.Fields)
	case lifecycle.RequeueJobs:
		return a.requeueJobs(ctx, c.Last)
	case lifecycle.EndStaleJobs:
		return a.endStaleJobs(ctx)
	case lifecycle.MendLaunch:
		return a.mendLaunch(ctx)
	case lifecycle.StartSackd:
		return a.startSackd(ctx)
	}
	panic(fmt.Sprintf("change: no such verb: %d", c.Verb))
}

// remove has the record deleted, or kept if somebody names the node. Where slurmctld's agent is not asked, this agent asks
// slurmctld who names it.
func (a *Agent) remove(ctx context.Context, c ask.Change) error {
	return a.asker.Change(ctx, c, func(ctx context.Context) error { return merge.Make(ctx, a.client, []ask.Change{c})[c] })
}

// deleteAgain deletes a record that a registration has made anew, if it is there.
func (a *Agent) deleteAgain(ctx context.Context, conf string) error {
	node, err := a.client.Glance(ctx, a.Config.NodeName)
	switch {
	case err != nil:
		return err
	case node == nil:
		return fmt.Errorf("nothing has made the record of node %s anew: %w", a.Config.NodeName, slurm.ErrNoNode)
	}
	return a.remove(ctx, ask.Change{Verb: ask.Delete, Node: a.Config.NodeName, Conf: conf})
}

// resumeNode lifts the node's drain.
func (a *Agent) resumeNode(ctx context.Context) error {
	node := a.Config.NodeName
	return a.asker.Change(ctx, ask.Change{Verb: ask.Resume, Node: node}, func(ctx context.Context) error { return a.client.ReinstateNode(ctx, node) })
}

// powerDown drains an elastic node, which slurmctld suspends after its jobs.
func (a *Agent) powerDown(ctx context.Context, reason string) error {
	node := a.Config.NodeName
	return a.asker.Change(ctx, ask.Change{Verb: ask.PowerDown, Node: node, Reason: reason}, func(ctx context.Context) error { return a.client.PowerDownNode(ctx, node, reason) })
}

// exit ends what still runs here when the daemon's life is over.
func (a *Agent) exit() {
	if a.cancelQuestion != nil {
		a.cancelQuestion()
	}
	a.killSteps()
	a.loginServices.Close()
	a.killSackd()
}

// spread makes a thousand nodes not ask a new slurmctld at once, nor one that
// was away when all of them got SIGTERM. A deadline stays what it is. Where nobody waits for the
// answer, all nodes together ask within the time that the cluster needs.
func spread(l lifecycle.State, wait, cluster time.Duration) time.Duration {
	switch {
	case l.Activity == lifecycle.Ending, l.Activity == lifecycle.Replacing:
		return wait
	case l.Activity == lifecycle.Idle:
		return wait + rand.N(max(wait, cluster))
	case l.Phase == lifecycle.Reloading && l.Tries == 0:
		return wait + rand.N(max(wait/5, cluster))
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/5+1))
}

func (a *Agent) reachQuestion(ctx context.Context, number int) lifecycle.Event {
	err := a.daemon.reach(a, ctx)
	return lifecycle.Answered{Number: number, Err: err, Late: isLate(err), Steps: a.stepsHere()}
}

// isLate: the question has taken all of questionLimit.
func isLate(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// stepsHere counts the steps of a node.
func (a *Agent) stepsHere() int {
	if !a.daemon.registers {
		return 0
	}
	return len(a.stepSockets())
}

// confirmQuestion: a daemon that does not answer often says why.
func (a *Agent) confirmQuestion(ctx context.Context, number int) lifecycle.Event {
	err := a.daemon.confirm(a, ctx)
	if said := a.lastWords(); err != nil && said != "" {
		err = fmt.Errorf("%w; %s: %s", err, a.daemon.program, said)
	}
	return lifecycle.Answered{Number: number, Err: err, Late: isLate(err)}
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

func (a *Agent) nodeQuestion(ctx context.Context, act lifecycle.AskNode) lifecycle.Event {
	e := a.recordAnswer(ctx, act.Number, act.Need)
	if e.Err == nil && e.Node != nil {
		e.Err = a.knownGres(ctx, e.Node)
		e.Late = isLate(e.Err)
	}
	if e.Err == nil && e.Node != nil && e.Node.Busy() {
		e.Steps = len(a.stepSockets())
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

var signals = map[lifecycle.MainSignal]unix.Signal{lifecycle.SigTerm: unix.SIGTERM, lifecycle.SigHup: unix.SIGHUP, lifecycle.SigKill: unix.SIGKILL}

func (a *Agent) signal(s lifecycle.MainSignal) {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	if a.process == nil {
		return
	}
	if s == lifecycle.SigTerm {
		a.ctld.Stopping(a.process)
	}
	err := a.process.Signal(signals[s])
	if err != nil && !errors.Is(err, process.ErrExited) {
		a.log(slog.LevelError, "cannot signal the daemon", slog.Any("error", err), slog.String("signal", string(s)))
	}
}
