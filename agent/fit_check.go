package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Fit is what came of comparing the cluster's configuration with this pod.
type Fit struct {
	Misfits []Misfit `json:"misfits,omitempty"`
	// Error says why the configuration could not be had.
	Error string `json:"error,omitempty"`
}

// fitCheck asks for the cluster's configuration when the node is Ready, and
// after each reconfigure: never on the way there, where it would compete with
// slurmd's registration for the pod's CPU.
type fitCheck struct {
	found  atomic.Pointer[Fit]
	cancel context.CancelFunc

	lock sync.Mutex
	told []Misfit
}

// checkFit is called by the owner. What it asks for is in nobody's way: its
// answer, or none, changes no state.
func (a *Agent) checkFit() {
	if a.fit.cancel != nil {
		a.fit.cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	a.fit.cancel = cancel
	node := *a.status.Load().Node
	go func() {
		defer cancel()
		cluster, err := a.client.Config(ctx)
		if !errors.Is(ctx.Err(), context.Canceled) { // a later one has taken over
			a.fitFound(node, cluster, err)
		}
	}()
}

func (a *Agent) fitFound(node NodeStatus, cluster slurm.Config, err error) {
	if err != nil {
		a.fit.found.Store(&Fit{Error: err.Error()})
		return
	}
	misfits := fit(node, a.Config, mayBind(), cluster)
	a.fit.found.Store(&Fit{Misfits: misfits})
	a.fit.lock.Lock()
	defer a.fit.lock.Unlock()
	for _, m := range misfits {
		if !slices.Contains(a.fit.told, m) {
			a.fit.told = append(a.fit.told, m)
			a.tell(slog.LevelWarn, "the cluster's configuration does not fit this pod",
				slog.String("setting", m.Setting), slog.String("instead", m.Instead), slog.String("why", m.Why))
		}
	}
}

// mayBind says whether root in this container may have CAP_SYS_NICE, which is
// what slurmstepd needs to bind another user's process.
func mayBind() bool {
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_NICE, 0, 0, 0)
	return err == nil && has == 1
}
