package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/systemd"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Run lives the container's life and returns the program's exit status. It
// must not run on the main goroutine (internal/pod/pid1).
func Run(ctx context.Context, o Options) (int, error) {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	a := &Agent{Options: o, began: time.Now(), alive: alive, events: make(chan lifecycle.Event, 16)}
	if err := a.prepare(); err != nil {
		return codeOf(err), err
	}
	defer a.main.Close()
	servers, err := a.serve()
	if err != nil {
		return codeOf(err), err
	}
	defer servers.close()
	a.listen(ctx)
	code := a.own()
	end()
	return code, nil
}

func codeOf(err error) int {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Code
	}
	return ExitFailure
}

// prepare does all that can fail for good, before anything is started.
func (a *Agent) prepare() error {
	var err error
	if a.daemon, err = findDaemon(a.Config); err != nil {
		return err
	}
	p := a.plan()
	if err := a.secureDirectories(); err != nil {
		return err
	}
	a.life = lifecycle.New(p, nodesize.Allocation{})
	a.unit = systemd.Unit{ReloadLimit: conf.TakeLimit, Post: a.post, Log: a.log}
	a.keys = a.newKeys()
	a.kiosk = a.newKiosk()
	a.main = a.newMain()
	scontrol := a.newScontrol()
	if p.Registers {
		if err := a.openNode(); err != nil {
			return err
		}
	}
	if p.Reloads {
		a.ctld = a.newSlurmctld(scontrol)
	}
	return a.open()
}

// plan is what the lifecycle must know of the role and the settings.
func (a *Agent) plan() lifecycle.Plan {
	d, c := a.daemon, a.Config
	return lifecycle.Plan{
		Role:      lifecycle.Role{Registers: d.registers, Hosts: d.hosts, Reloads: d.reloads, Converts: d.converts},
		Plan:      supervisor.Plan{Restarts: d.restarts, Announces: d.announces, Reaches: d.reach != nil},
		NodePlan:  node.Plan{Elastic: c.Elastic && d.registers, GresConf: gresConf(c), Signals: c.JobSignal.Name != ""},
		Deadlines: deadlines.New(c.Grace, c.JobSignal.Lead),
		Lead:      c.JobSignal.Lead,
	}
}

// newScontrol makes a.client, which asks slurmctld by Slurm's commands.
func (a *Agent) newScontrol() slurm.Scontrol {
	programs := a.daemon.programs
	var turns *slurm.Turns
	if a.daemon.registers {
		turns = slurm.NewTurns()
	}
	scontrol := slurm.Scontrol{
		Path: programs["scontrol"], Scancel: programs["scancel"], Sinfo: programs["sinfo"], Squeue: programs["squeue"],
		Sdiag: programs["sdiag"], Env: a.daemon.scontrolEnv(),
		Asked: func(question context.Context) { a.slurmdNode.Asked(question) }, Turn: turns.With(a.Turn),
	}
	a.client = &slurm.Questions{Client: scontrol, Turns: turns, Least: node.QuestionLimit, Done: a.alive.Done(), Log: a.log}
	return scontrol
}

// open opens files, and sockets for the daemon.
func (a *Agent) open() error {
	if err := os.MkdirAll(a.Config.RunDir, 0o755); err != nil {
		return fmt.Errorf("cannot make SLURMLET_RUN_DIR: %w", err)
	}
	err := errors.Join(a.slurmdNode.WriteGres(gresConf(a.Config)), a.daemon.makeRuntime(), a.openKeys(), a.openSack())
	if err == nil && a.daemon.open != nil {
		err = a.daemon.open(a)
	}
	if err == nil {
		err = a.openServices()
	}
	if err != nil {
		return err
	}
	if err := a.main.Open(); err != nil {
		return err
	}
	if a.life.Reloads {
		a.openSlurmctld()
	}
	if a.daemon.confCopy != nil && a.Config.AgentPort != 0 {
		a.follower = a.newFollower()
	}
	if a.Config.Peers != "" {
		if err := a.openNames(); err != nil {
			return err
		}
		if err := a.openQueue(); err != nil {
			return err
		}
	}
	a.publish(a.life)
	return nil
}

// listen starts the goroutines that turn signals and notifications into events.
func (a *Agent) listen(ctx context.Context) {
	if a.life.Registers {
		a.slurmdNode.Start(a.alive)
	}
	if a.follower != nil {
		go a.follower.Run()
	}
	a.ctld.Run()
	if a.names != nil {
		go a.names.Run(a.alive)
		if a.life.Registers {
			go a.slurmdNode.FollowKubernetes(a.alive)
		}
	}
	go a.unit.Watch(a.alive.Done())
	go a.main.Serve()
	go a.findVersion()
	go a.watchSignals(ctx)
}
