package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// sackSocket is where Slurm's commands get their credentials of auth/slurm, from slurmd
// or from sackd (Slurm's sack_api.c). 26.05 has a variable for another path, 24.11 none.
const sackSocket = "/run/slurm/sack.socket"

const (
	// firstDoubt is how long a command of Slurm's may take before slurmd is doubted. What
	// is answered sooner, as everything is in a cluster that is well, costs nothing.
	firstDoubt = time.Second
	// busyLimits is how many limits a slurmd has that computes, or waits for a processor or a disk: it
	// answers when it gets to it. On the way down it has busyOnTheWay.
	busyLimits   = 6
	busyOnTheWay = 2
	// checkEvery is how often a probe has slurmd checked. After SlurmdTimeout
	// (slurm.conf(5)), 300 s, slurmctld takes the node for dead, and its jobs.
	checkEvery = time.Minute
)

// hangCheck finds a slurmd that hangs. Without slurmd's credentials scontrol waits for ever.
// A nil hangCheck checks nothing.
type hangCheck struct {
	// socket is slurmd's, empty as long as it is not in service.
	socket  func() string
	done    <-chan struct{}
	running func() *process.Process
	// reach succeeds when slurmctld can be reached. Without it another slurmd would not come
	// up, and nothing could be asked.
	reach func(context.Context) error
	// crowded: slurmd serves, but so many others that it has not come to the agent.
	crowded func() bool
	// hangs reports a slurmd that has not answered for so long.
	hangs func(pid int, limit time.Duration)

	// limit is for how long slurmd may hang, in nanoseconds.
	limit atomic.Int64
	// stopping: the agent is on its way down.
	stopping atomic.Bool
	// checking: somebody waits for slurmd's answer; probed is when a probe last had it checked.
	checking atomic.Bool
	probed   atomic.Int64
}

// newHangCheck is nil where Slurm's commands need no slurmd.
func (a *Agent) newHangCheck() *hangCheck {
	if !a.daemon.registers || a.daemon.keys == "" {
		return nil
	}
	return &hangCheck{
		socket: a.slurmdSocket, done: a.over, running: a.mainProcess, reach: a.reachController, crowded: a.crowded,
		hangs: func(pid int, limit time.Duration) {
			a.log(slog.LevelError, "slurmd hangs: it takes connections on its socket and does not answer them", slog.String("socket", sackSocket), slog.Duration("for", limit))
			a.post(lifecycle.MainHung{PID: pid})
		},
	}
}

// setLimit sets for how long slurmd may hang.
func (h *hangCheck) setLimit(limit time.Duration) {
	if h != nil {
		h.limit.Store(int64(limit))
	}
}

// asked is told of every question to slurmctld. Where one takes long, slurmd may be what hangs.
func (h *hangCheck) asked(question context.Context) {
	if h == nil || !h.checking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer h.checking.Store(false)
		select {
		case <-question.Done():
		case <-h.done:
		case <-time.After(firstDoubt):
			h.check()
		}
	}()
}

// atProbe checks slurmd, at most once a minute, when the kubelet asks for its pod anyway.
func (h *hangCheck) atProbe() {
	if h == nil {
		return
	}
	last, now := h.probed.Load(), time.Now().UnixNano()
	if now-last >= int64(checkEvery) && h.probed.CompareAndSwap(last, now) {
		h.asked(context.Background())
	}
}

// whileStopping checks slurmd now and then on the way down. Steps that end while
// slurmd hangs cannot say so: slurmstepd has its credentials from slurmd, too.
func (h *hangCheck) whileStopping() {
	if h != nil {
		h.stopping.Store(true)
	}
	for h != nil {
		select {
		case <-h.done:
			return
		case <-time.After(max(time.Duration(h.limit.Load())/4, firstDoubt)):
			h.check()
		}
	}
}

func (h *hangCheck) check() {
	main := h.running()
	if main == nil {
		return
	}
	silent := h.silence(main)
	if silent == 0 || h.crowded() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(h.limit.Load()))
	defer cancel()
	if h.reach(ctx) == nil {
		h.hangs(main.PID(), silent)
	}
}

// silence is for how long slurmd has not answered, if it hangs.
func (h *hangCheck) silence(main *process.Process) time.Duration {
	limit := time.Duration(h.limit.Load())
	for tries := 1; isHung(h.socket(), limit) && h.running() == main; tries++ {
		if tries >= busyLimits || tries >= busyOnTheWay && h.stopping.Load() || !process.Busy(main.PID()) {
			return time.Duration(tries) * limit
		}
	}
	return 0
}

// isHung: somebody listens on the socket, and does not close a connection that is
// closed for writing, as slurmd and sackd do within milliseconds.
func isHung(path string, limit time.Duration) bool {
	end := time.Now().Add(limit)
	for {
		conn, err := net.DialTimeout("unix", path, limit)
		switch {
		case err == nil:
			defer conn.Close()
			_ = errors.Join(conn.(*net.UnixConn).CloseWrite(), conn.SetReadDeadline(end)) // the answer, or none, is what counts
			_, err = conn.Read(make([]byte, 1))
			return errors.Is(err, os.ErrDeadlineExceeded)
		case !errors.Is(err, unix.EAGAIN): // others wait for an answer, so many that no more may
			return false
		case time.Now().After(end):
			return true
		}
		<-time.After(limit / 100)
	}
}
