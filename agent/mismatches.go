package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// MismatchStatus is what came of comparing the cluster's configuration with this pod.
type MismatchStatus struct {
	Mismatches []nodesize.Mismatch `json:"misfits,omitempty"`
	// Devices says whether jobs are held to their devices; empty without GPUs.
	Devices string `json:"devices,omitempty"`
	// Error says why the configuration could not be had.
	Error string `json:"error,omitempty"`
}

// mismatchCheck asks for the cluster's configuration when the node is Ready, and
// after each reconfigure: never on the way there, where it would compete with
// slurmd's registration for the pod's CPU.
type mismatchCheck struct {
	found  atomic.Pointer[MismatchStatus]
	cancel context.CancelFunc
	// asked: the configuration was asked for once.
	asked bool

	lock   sync.Mutex
	logged []nodesize.Mismatch
}

// checkMismatches is called by the owner. What it asks for is in nobody's way: its
// answer, or none, changes no state.
func (a *Agent) checkMismatches() {
	if a.mismatchCheck.cancel != nil {
		a.mismatchCheck.cancel()
	}
	alive, cancel := context.WithCancel(context.Background())
	a.mismatchCheck.cancel = cancel
	node, spread := *a.status.Load().Node, time.Duration(0)
	if a.mismatchCheck.asked {
		spread = rand.N(a.follower.Spread() + 1) // all nodes have reconfigured
	}
	a.mismatchCheck.asked = true
	go func() {
		defer cancel()
		select {
		case <-time.After(spread):
		case <-alive.Done():
			return
		}
		ctx, cancel := context.WithTimeout(alive, a.questionLimit())
		defer cancel()
		cluster, err := a.client.Config(ctx)
		if !errors.Is(ctx.Err(), context.Canceled) { // a later one has taken over
			a.compared(node, cluster, err)
		}
	}()
}

func (a *Agent) compared(node NodeStatus, cluster slurm.Config, err error) {
	if err != nil {
		a.mismatchCheck.found.Store(&MismatchStatus{Error: err.Error()})
		return
	}
	a.learn(cluster)
	pod := nodesize.Pod{
		Size: node.Size, Limits: node.Limits, Gres: node.Gres, Controllers: node.Cgroup.Controllers, MayBind: mayBind(),
		MayHoldDevices: node.Cgroup.HoldsDevices(),
		SpoolDir:       a.Config.SpoolDir, TmpDir: a.Config.TmpDir, GresConf: gresConf(a.Config),
	}
	mismatches := nodesize.Mismatches(pod, cluster)
	a.mismatchCheck.found.Store(&MismatchStatus{Mismatches: mismatches, Devices: nodesize.Devices(pod, cluster)})
	a.mismatchCheck.lock.Lock()
	defer a.mismatchCheck.lock.Unlock()
	for _, m := range mismatches {
		if !slices.Contains(a.mismatchCheck.logged, m) {
			a.mismatchCheck.logged = append(a.mismatchCheck.logged, m)
			a.log(slog.LevelWarn, "the cluster's configuration does not fit this pod",
				slog.String("setting", m.Setting), slog.String("instead", m.Instead), slog.String("why", m.Why))
		}
	}
}

// learn keeps what questions to slurmctld have to heed.
func (a *Agent) learn(cluster slurm.Config) {
	a.client.Learn(cluster)
	a.savesPower.Store(cluster.Names("ResumeProgram") && cluster.Names("SuspendProgram"))
}

// mayBind says whether root in this container may have CAP_SYS_NICE, which is
// what slurmstepd needs to bind another user's process.
func mayBind() bool {
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_NICE, 0, 0, 0)
	return err == nil && has == 1
}
