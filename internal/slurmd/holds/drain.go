package holds

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
)

func (h *Holds) isDrained(one *hold) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return one.drained
}

// lift lifts the drain of holds, until slurmctld has answered or there is another hold that needs it. It looks twice: a drain
// whose answer was lost may come late.
func (h *Holds) lift() {
	for tries, looks := 0, 0; h.alive.Err() == nil && looks < 2; tries++ {
		changed, err := h.tryLift()
		_, foreign := errors.AsType[*drains.ForeignError](err)
		pause := backoff.Grow(time.Second, tries, lateDrain)
		switch {
		case changed:
			h.Log(slog.LevelInfo, "the pods of ended jobs are gone: the node is resumed")
			return
		case foreign, errors.Is(err, slurm.ErrNoRecord):
			return
		case err == nil:
			looks++
			pause = lateDrain
		}
		select {
		case <-h.alive.Done():
		case <-time.After(pause):
		}
	}
}

// liftStart lifts the drain with which slurmd's record has begun, once slurmctld has the record.
func (h *Holds) liftStart() {
	select {
	case <-h.alive.Done():
		return
	case <-h.ready:
	}
	for tries := range startLooks {
		if changed, err := h.tryLift(); changed || err == nil && tries > 0 {
			break
		}
		select {
		case <-h.alive.Done():
			return
		case <-time.After(backoff.Grow(200*time.Millisecond, tries, lateDrain)):
		}
	}
	h.lift() // a drain whose answer was lost may come late
}

// startLooks bounds the looks for a record that slurmd is to make: some minutes.
const startLooks = 20

// needsNoDrain lifts the drain that a hold has had for a start of slurmd: its job runs.
func (h *Holds) needsNoDrain(one *hold) {
	h.mu.Lock()
	drained := one.drained && !one.ended
	if drained {
		one.drained = false
	}
	h.mu.Unlock()
	if drained && !h.anyDrained() {
		go h.lift()
	}
}

func (h *Holds) tryLift() (changed bool, err error) {
	h.order.Lock()
	defer h.order.Unlock()
	if h.anyDrained() {
		return false, nil
	}
	return h.Drains.Lift(h.alive, reasons.Pods)
}

func (h *Holds) anyDrained() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.held {
		if one.drained {
			return true
		}
	}
	return false
}

// drain drains the node for a hold, and returns when it is drained, the hold is gone, or the agent ends.
func (h *Holds) drain(one *hold) (drained bool) {
	for tries := 0; ; tries++ {
		if h.setDrain(one) {
			return true
		}
		if !h.pause(one, backoff.Grow(time.Second, tries, 5*time.Second)) {
			return false
		}
	}
}

// setDrain is tryDrain. A drain of somebody else's keeps jobs away as well.
func (h *Holds) setDrain(one *hold) bool {
	err := h.tryDrain(one)
	_, foreign := errors.AsType[*drains.ForeignError](err)
	if err != nil && !foreign {
		h.Log(slog.LevelDebug, "cannot drain the node for pods of an ended job", slog.Any("error", err))
	}
	return err == nil || foreign
}

// errReleased says that the hold is gone for which a drain was to be.
var errReleased = errors.New("no pod of the job is left")

// tryDrain drains the node for a hold that is not gone.
func (h *Holds) tryDrain(one *hold) error {
	h.order.Lock()
	defer h.order.Unlock()
	select {
	case <-one.gone:
		return errReleased
	default:
	}
	h.mu.Lock()
	one.drained = true
	reason := h.reason(one)
	h.mu.Unlock()
	changed, err := h.Drains.Set(h.alive, reasons.Pods, reason)
	if changed {
		h.Log(slog.LevelWarn, "the node is drained until pods of an earlier job are gone",
			slog.Uint64("job", uint64(one.job)), slog.String("reason", reason))
	}
	return err
}

// reason is why the node is drained for a hold. The caller holds mu.
func (h *Holds) reason(one *hold) string {
	if one.job == 0 && len(one.pods) == 0 && !h.cleared {
		return unknownPods
	}
	of := "an earlier job"
	if one.job != 0 {
		of = fmt.Sprintf("job %d", one.job)
	}
	pods := strings.Join(one.pods[:min(len(one.pods), 3)], ", ")
	reason := fmt.Sprintf("%s%s has left pods: %s", reasons.ByPods, of, cmp.Or(pods, "the controller does not say which"))
	return reason[:min(len(reason), mostReason)]
}

// clear lifts a drain that an earlier agent has left, once the controller says that no pod of any job is on the node. While
// there are some, and no hold, the node is drained.
func (h *Holds) clear() {
	whole := &hold{since: time.Now(), gone: make(chan struct{})}
	for tries := 0; ; tries++ {
		pods, none, err := h.Controller.JobPods(h.alive, 0, h.Node)
		pause := peers.PauseAfter(err, tries)
		h.mu.Lock()
		held := len(h.held) > 0
		whole.pods = pods
		h.mu.Unlock()
		switch {
		case none:
			h.mu.Lock()
			h.cleared = true
			starts := h.startsDrained
			h.mu.Unlock()
			if starts {
				h.liftStart()
			} else {
				h.lift()
			}
			return
		case err == nil && !held:
			h.setDrain(whole)
			pause = max(pause, firstSaid)
		case held:
			pause = max(pause, firstSaid)
		}
		if !h.pause(whole, pause) {
			return
		}
	}
}
