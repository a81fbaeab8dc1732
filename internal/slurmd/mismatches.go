package slurmd

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
	"github.com/slurmlet/slurmlet/internal/slurmd/podsize"
)

// MismatchStatus is what came of comparing the cluster's configuration with this pod.
type MismatchStatus struct {
	Mismatches []slurm.Mismatch `json:"misfits,omitempty"`
	// Devices says whether jobs are held to their devices; empty without GPUs.
	Devices string `json:"devices,omitempty"`
	// Error says why the configuration could not be had.
	Error string `json:"error,omitempty"`
}

// mismatchCheck asks for the cluster's configuration when the node is Ready, and
// after each reconfigure: never on the way there, where it would compete with
// slurmd's registration for the pod's CPU.
type mismatchCheck struct {
	slurm *slurm.Questions
	// spread is within which time all nodes together ask.
	spread func() time.Duration
	// learned takes the configuration.
	learned func(slurm.Config)
	log     func(level slog.Level, text string, attrs ...slog.Attr)

	last   atomic.Pointer[MismatchStatus]
	cancel context.CancelFunc
	// asked: the configuration was asked for once.
	asked bool

	lock   sync.Mutex
	logged []slurm.Mismatch
}

// check is called by the agent's loop. What it asks for is in nobody's way: its
// answer, or none, changes no state.
func (m *mismatchCheck) check(node *Status, podOf func(*Status) podsize.Pod) {
	if m.cancel != nil {
		m.cancel()
	}
	alive, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	spread := time.Duration(0)
	if m.asked {
		spread = rand.N(m.spread() + 1) // all nodes have reconfigured
	}
	m.asked = true
	go func() {
		defer cancel()
		select {
		case <-time.After(spread):
		case <-alive.Done():
			return
		}
		ctx, cancel := context.WithTimeout(alive, m.slurm.Limit())
		defer cancel()
		cluster, err := m.slurm.Config(ctx)
		if !errors.Is(ctx.Err(), context.Canceled) { // a later one has taken over
			m.compare(podOf(node), cluster, err)
		}
	}()
}

func (m *mismatchCheck) compare(pod podsize.Pod, cluster slurm.Config, err error) {
	if err != nil {
		m.last.Store(&MismatchStatus{Error: err.Error()})
		return
	}
	m.slurm.Learn(cluster)
	m.learned(cluster)
	mismatches := podsize.Mismatches(pod, cluster)
	m.last.Store(&MismatchStatus{Mismatches: mismatches, Devices: podsize.Devices(pod, cluster)})
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, one := range mismatches {
		if !slices.Contains(m.logged, one) {
			m.logged = append(m.logged, one)
			m.log(slog.LevelWarn, "the cluster's configuration does not fit this pod",
				slog.String("setting", one.Setting), slog.String("instead", one.Instead), slog.String("why", one.Why))
		}
	}
}

// fits is what the cluster's configuration is compared with.
func (n *Node) fits(s *Status) podsize.Pod {
	return podsize.Pod{
		Size: s.Size, Resources: s.Limits, Gres: s.Gres, Controllers: s.Cgroup.Controllers, MayBind: mayBind(),
		MayHoldDevices: s.Cgroup.HoldsDevices(), Shared: n.SizeOptions.Shared != nil,
		SpoolDir: n.SizeOptions.SpoolDir, TmpDir: n.SizeOptions.TmpDir, GresConf: n.GresConf,
	}
}

// mayBind says whether root in this container may have CAP_SYS_NICE, which is
// what slurmstepd needs to bind another user's process.
func mayBind() bool {
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_NICE, 0, 0, 0)
	return err == nil && has == 1
}
