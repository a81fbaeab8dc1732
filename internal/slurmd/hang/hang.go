// Package hang finds a slurmd that takes connections and does not answer them.
package hang

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

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

// Options are what a Check needs to know of slurmd.
type Options struct {
	// Socket returns the path of slurmd's socket, empty as long as slurmd is not in service.
	Socket func() string
	Done   <-chan struct{}
	// Running is the main process, nil for none.
	Running func() *process.Process
	// Reach succeeds when slurmctld can be reached. Without it another slurmd would not come
	// up, and nothing could be asked.
	Reach func(context.Context) error
	// Crowded: slurmd serves, but so many others that it has not come to the agent.
	Crowded func() bool
	// Hangs takes a slurmd that has not answered for so long.
	Hangs func(pid int, limit time.Duration)
}

// Check finds a slurmd that hangs. Without slurmd's credentials scontrol waits for ever.
// A nil Check checks nothing.
type Check struct {
	Options

	// limit is for how long slurmd may hang, in nanoseconds.
	limit atomic.Int64
	// stopping: the agent is on its way down.
	stopping atomic.Bool
	// checking: somebody waits for slurmd's answer; probed is when a probe last had it checked.
	checking atomic.Bool
	probed   atomic.Int64
}

// New checks a slurmd.
func New(o Options) *Check { return &Check{Options: o} }

// SetLimit sets for how long slurmd may hang.
func (h *Check) SetLimit(limit time.Duration) {
	if h != nil {
		h.limit.Store(int64(limit))
	}
}

// Asked is called with every question to slurmctld. Where one takes long, slurmd may be what hangs.
func (h *Check) Asked(question context.Context) {
	if h == nil || !h.checking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer h.checking.Store(false)
		select {
		case <-question.Done():
		case <-h.Done:
		case <-time.After(firstDoubt):
			h.probe()
		}
	}()
}

// AtProbe checks slurmd, at most once a minute, when the kubelet asks for its pod anyway.
func (h *Check) AtProbe() {
	if h == nil {
		return
	}
	last, now := h.probed.Load(), time.Now().UnixNano()
	if now-last >= int64(checkEvery) && h.probed.CompareAndSwap(last, now) {
		h.Asked(context.Background())
	}
}

// WhileStopping checks slurmd now and then on the way down. Steps that end while
// slurmd hangs cannot say so: slurmstepd has its credentials from slurmd, too.
func (h *Check) WhileStopping() {
	if h != nil {
		h.stopping.Store(true)
	}
	for h != nil {
		select {
		case <-h.Done:
			return
		case <-time.After(max(time.Duration(h.limit.Load())/4, firstDoubt)):
			h.probe()
		}
	}
}

func (h *Check) probe() {
	main := h.Running()
	if main == nil {
		return
	}
	silent := h.silence(main)
	if silent == 0 || h.Crowded() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(h.limit.Load()))
	defer cancel()
	if h.Reach(ctx) == nil {
		h.Hangs(main.PID(), silent)
	}
}

// silence is for how long slurmd has not answered, if it hangs.
func (h *Check) silence(main *process.Process) time.Duration {
	limit := time.Duration(h.limit.Load())
	for tries := 1; isHung(h.Socket(), limit) && h.Running() == main; tries++ {
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
