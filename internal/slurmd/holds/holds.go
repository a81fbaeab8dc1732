// Package holds keeps a node from its next jobs until the Kubernetes pods of a job that has ended are gone.
//
// A Prolog places a hold, a file with the job's number, on each node of a job whose comment names a group of pods, and the agent
// tells slurmlet's controller that its node holds. The controller lets no pod onto a node before that. The job's Epilog finds
// the file, and waits for the agent, so the node stays COMPLETING. The controller alone says that no pod of the job is on the
// node: silence and errors never do. An epilog that has waited for long ends once the agent has drained the node, and the agent
// goes on asking, and lifts its own drain.
//
// What a job's script says is a hint, and anybody may say it.
package holds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
)

// Controller is asked for pods, and hears of holds.
type Controller interface {
	ReportStarted(ctx context.Context, started wire.Started) error
	JobPods(ctx context.Context, job uint32, node string) (pods []string, none bool, err error)
}

// Drains drains the node.
type Drains interface {
	Set(ctx context.Context, owner reasons.Owner, reason string) (changed bool, err error)
	Lift(ctx context.Context, owner reasons.Owner) (changed bool, err error)
}

// Options are the surroundings of Holds.
type Options struct {
	// Node is the node's name in Slurm.
	Node string
	// RunDir is SLURMLET_RUN_DIR below Root, and SpoolDir slurmd's, which outlives the container.
	RunDir, SpoolDir string
	Controller       Controller
	Drains           Drains
	// Config asks for the cluster's configuration, and States for the states of jobs.
	Config func(context.Context) (slurm.Config, error)
	States func(ctx context.Context, jobs []string) (map[string]string, error)
	Log    func(level slog.Level, text string, attrs ...slog.Attr)
}

// Holds are those of a node. Nil ones are those of a node without.
type Holds struct {
	Options
	dir   string
	doors doors
	// alive ends with the agent.
	alive context.Context

	mu   sync.Mutex
	held map[uint32]*hold
	// cleared says that the controller has said that no pod of an earlier job is on the node, or that holds of an earlier agent
	// say more. startsDrained says that a slurmd was started before, with a record that begins drained.
	cleared, startsDrained bool
	// ready is closed when a slurmd is ready for the first time.
	ready     chan struct{}
	readyOnce sync.Once
	// order keeps changes of the node's drain in their order.
	order sync.Mutex
}

// hold keeps the node for one job.
type hold struct {
	job   uint32
	since time.Time
	// gone is closed when the controller has said that no pod of the job is on the node.
	gone chan struct{}

	// Holds' mutex guards what follows. ended says that Slurm has ended the job here, drained that the node is drained for it.
	ended, drained, asking bool
	// hinted is when the controller was told last that the job's script is to end.
	hinted time.Time
	// quiet is closed when the controller has said that no pod is there, while the job's end is not Slurm's yet; nil where
	// nobody waits for that. none is when it has said so last.
	quiet chan struct{}
	none  time.Time
	pods  []string
	fault string
}

const (
	// dirName is in slurmd's spool directory, and linkName in SLURMLET_RUN_DIR leads to it.
	dirName, linkName = "slurmlet-holds", "holds"
	// endedMark is in the file of a hold whose job Slurm has ended.
	endedMark = "ended\n"
	// calm is how long the directory is left alone before it is looked at.
	calm = 5 * time.Millisecond
	// firstSaid and lastSaid bound the pauses between two reports of one hold: a new leader lets no pod onto a node before it has
	// heard of it. 10,000 nodes that hold make some 170 requests a second.
	firstSaid, lastSaid = 10 * time.Second, time.Minute
	// leastAsked is the least time between two questions for one hold's pods.
	leastAsked = time.Second
	// drainAgain is how often a drain is looked at: whoever lifts it does not know of the pods.
	drainAgain = time.Minute
	// lateDrain is after how long a drain whose answer was lost is looked for.
	lateDrain = 15 * time.Second
	// mostReason is how much slurmctld shows of a reason. Names of pods are ASCII.
	mostReason = 200
	// hintAgain is the least time between two hints of one job.
	hintAgain = 10 * time.Second
	patience  = 3
	// mostForDrain is how long a slurmd waits at most for the drain of its node.
	mostForDrain = 5 * time.Second
	// unknownPods is the reason of a drain from the start.
	unknownPods = reasons.ByPods + "the controller has not said yet that no pod of an earlier job is on the node"
)

// Open makes the directory of the holds, and what prologs, epilogs and jobs need of the agent. It reads what an earlier agent
// has left.
func Open(o Options) (*Holds, error) {
	h := &Holds{Options: o, dir: filepath.Join(o.SpoolDir, dirName), held: map[uint32]*hold{}, ready: make(chan struct{})}
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the holds: %w", err)
	}
	link := filepath.Join(o.RunDir, linkName)
	if at, err := os.Readlink(link); err != nil || at != h.dir {
		if err := errors.Join(removed(link), os.Symlink(h.dir, link)); err != nil {
			return nil, fmt.Errorf("cannot make %s, where prologs place holds: %w", link, err)
		}
	}
	return h, h.doors.open(o.RunDir)
}

// removed removes a file that may not be there.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Start follows the holds until ctx ends. It takes nil Holds.
func (h *Holds) Start(ctx context.Context) {
	if h == nil {
		return
	}
	h.alive = ctx
	h.look()
	h.mu.Lock()
	inherits := len(h.held) > 0
	h.cleared = inherits
	h.mu.Unlock()
	files := watch.New(watch.Options{Done: ctx.Done(), Calm: watch.For(calm), Changed: h.look})
	if err := files.Add(h.dir); err != nil {
		h.Log(slog.LevelWarn, "the kernel cannot report new holds: they are looked for every second", slog.Any("error", err))
		files.Tick(time.Second)
	}
	files.Look()
	go files.Run()
	h.doors.serve(h)
	if !inherits {
		go h.clear()
	}
}

// SlurmdReady is called when a slurmd is ready. slurmctld frees a COMPLETING node whose new slurmd registers without steps
// (validate_node_specs of 24.11.5 and 26.05.5), so the node is drained for each hold whose job does not run. It takes nil Holds.
func (h *Holds) SlurmdReady() {
	if h == nil || h.alive == nil {
		return
	}
	h.readyOnce.Do(func() { close(h.ready) })
	h.mu.Lock()
	defer h.mu.Unlock()
	var running []*hold
	for _, one := range h.held {
		if one.ended {
			go h.drain(one)
		} else {
			running = append(running, one)
		}
	}
	if len(running) > 0 {
		go h.judge(running)
	}
}

// BeforeSlurmd is called before a slurmd is started. A job could begin beside pods between its registration and SlurmdReady, so
// the node is drained before: for holds, and by an agent that does not know yet whether pods of an earlier job are there. It
// waits for slurmctld for a moment; slurmd asks slurmctld for its configuration, too. It takes nil Holds.
func (h *Holds) BeforeSlurmd() {
	if h == nil || h.alive == nil {
		return
	}
	var one *hold
	h.mu.Lock()
	if !h.cleared {
		one, h.startsDrained = &hold{gone: make(chan struct{})}, true
	}
	for _, of := range h.held {
		one, of.drained = of, true // the first that goes lifts nothing then
	}
	h.mu.Unlock()
	if one == nil {
		return
	}
	late := time.Now().Add(mostForDrain)
	for tries := 0; ; tries++ {
		err := h.tryDrain(one)
		_, foreign := errors.AsType[*drains.ForeignError](err)
		if err == nil || foreign || errors.Is(err, slurm.ErrNoRecord) || time.Now().After(late) {
			return
		}
		select {
		case <-h.alive.Done():
		case <-time.After(backoff.Grow(100*time.Millisecond, tries, time.Second)):
		}
	}
}

// State is what slurmd's arguments say of the state of a record that slurmctld makes anew: drained until the controller has said
// that no pod of an earlier job is on the node. It takes nil Holds.
func (h *Holds) State() string {
	if h == nil || h.alive == nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cleared {
		return ""
	}
	h.startsDrained = true
	return fmt.Sprintf(" State=DRAIN Reason=%q", unknownPods)
}

// runningStates are the states of a job whose pods may be there.
var runningStates = []string{"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "RESIZING"}

// judge finds out which holds are of jobs that do not run, and drains the node for them.
func (h *Holds) judge(holds []*hold) {
	var ids []string
	for _, one := range holds {
		ids = append(ids, one.id())
	}
	for tries := 0; h.alive.Err() == nil; tries++ {
		states, err := h.States(h.alive, ids)
		if err != nil {
			select {
			case <-h.alive.Done():
			case <-time.After(backoff.Grow(time.Second, tries, time.Minute)):
			}
			continue
		}
		for _, one := range holds {
			if slices.Contains(runningStates, states[one.id()]) {
				h.needsNoDrain(one)
				continue
			}
			h.mu.Lock()
			h.endLocked(one)
			h.mu.Unlock()
			go h.drain(one)
		}
		return
	}
}

func (o *hold) id() string { return strconv.FormatUint(uint64(o.job), 10) }

// look finds holds that prologs have placed.
func (h *Holds) look() {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		h.Log(slog.LevelError, "cannot look for holds", slog.Any("error", err))
		return
	}
	for _, entry := range entries {
		if job, err := strconv.ParseUint(entry.Name(), 10, 32); err == nil && job != 0 {
			h.find(uint32(job))
		}
	}
}

// find is the hold of a job, nil where there is none.
func (h *Holds) find(job uint32) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.held[job]; one != nil {
		return one
	}
	text, err := os.ReadFile(h.path(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	one := &hold{job: job, since: time.Now(), gone: make(chan struct{})}
	h.held[job] = one
	h.Log(slog.LevelInfo, "the node holds for a job of Kubernetes' pods", slog.Uint64("job", uint64(job)))
	if err != nil || string(text) == endedMark {
		h.endLocked(one)
		go h.drain(one) // its epilog has gone with the earlier agent
	} else {
		go h.say(one)
	}
	return one
}

func (h *Holds) path(job uint32) string {
	return filepath.Join(h.dir, strconv.FormatUint(uint64(job), 10))
}

// say tells the controller again and again that the node holds: another replica may write by now.
func (h *Holds) say(one *hold) {
	for tries, said := 0, 0; ; {
		pause := backoff.Grow(firstSaid, said, lastSaid)
		if err := h.Controller.ReportStarted(h.alive, wire.Started{Job: one.job}); err != nil {
			pause = peers.PauseAfter(err, tries)
			h.note(one, tries, err)
			tries++
		} else {
			tries = 0
			said++
		}
		if !h.pause(one, pause) {
			return
		}
		h.mu.Lock()
		ended := one.ended
		h.mu.Unlock()
		if ended {
			return
		}
	}
}

// pause waits, and says whether the hold is still there.
func (h *Holds) pause(one *hold, d time.Duration) bool {
	select {
	case <-h.alive.Done():
		return false
	case <-one.gone:
		return false
	case <-time.After(d):
		return true
	}
}

// note keeps why the controller has not answered.
func (h *Holds) note(one *hold, tries int, err error) {
	h.mu.Lock()
	one.fault = err.Error()
	h.mu.Unlock()
	if tries == patience {
		h.Log(slog.LevelWarn, "the controller does not answer to a node that holds for a job of its pods",
			slog.Uint64("job", uint64(one.job)), slog.Any("error", err))
	}
}

// endLocked has the hold end when the controller says that no pod is left: Slurm has ended the job here.
func (h *Holds) endLocked(one *hold) {
	if one.ended {
		return
	}
	one.ended = true
	if err := os.WriteFile(h.path(one.job), []byte(endedMark), 0o600); err != nil {
		h.Log(slog.LevelError, "cannot mark a hold as that of an ended job: an agent that starts anew waits for its epilog",
			slog.Uint64("job", uint64(one.job)), slog.Any("error", err))
	}
	h.askLocked(one)
}

// askLocked asks for the hold's pods, unless somebody does.
func (h *Holds) askLocked(one *hold) {
	if !one.asking {
		one.asking = true
		go h.ask(one)
	}
}

// ask asks the controller for the job's pods until none is left and Slurm has ended the job here.
func (h *Holds) ask(one *hold) {
	var drained time.Time
	for tries := 0; ; {
		h.mu.Lock()
		ended := one.ended
		h.mu.Unlock()
		began := time.Now()
		pods, none, err := h.Controller.JobPods(h.alive, one.job, h.Node)
		pause := leastAsked - time.Since(began)
		switch {
		case err != nil:
			h.note(one, tries, err)
			pause = peers.PauseAfter(err, tries)
			tries++
		case none && ended:
			if h.release(one) {
				return
			}
		case none:
			h.mu.Lock()
			one.asking = one.ended // Slurm has ended it meanwhile: the next answer counts
			again := one.asking
			one.pods, one.none = nil, time.Now()
			if one.quiet != nil {
				close(one.quiet)
				one.quiet = nil
			}
			h.mu.Unlock()
			if !again {
				return
			}
		default:
			tries = 0
			h.mu.Lock()
			one.pods, one.fault = pods, ""
			h.mu.Unlock()
		}
		if h.isDrained(one) && time.Since(drained) >= drainAgain {
			h.setDrain(one)
			drained = time.Now()
		}
		if !h.pause(one, pause) {
			return
		}
	}
}

// release takes the hold away: the controller has said that no pod is left. It fails where the file stays.
func (h *Holds) release(one *hold) bool {
	if err := removed(h.path(one.job)); err != nil {
		h.note(one, patience, err)
		return false
	}
	h.mu.Lock()
	delete(h.held, one.job)
	drained, left := one.drained, slices.ContainsFunc(slices.Collect(maps.Values(h.held)), func(other *hold) bool { return other.drained })
	h.mu.Unlock()
	close(one.gone)
	h.Log(slog.LevelInfo, "no pod of an ended job is left: the node does not hold for it", slog.Uint64("job", uint64(one.job)),
		slog.Duration("after", time.Since(one.since)))
	if drained && !left {
		go h.lift()
	}
	return true
}

// wait has Slurm's end of a job wait, for its epilog. over says that no pod is left, and otherwise the node is drained. Neither
// is known when ctx or the agent ends.
func (h *Holds) wait(ctx context.Context, job uint32) (over, drained bool) {
	one := h.find(job)
	if one == nil {
		return true, false
	}
	h.mu.Lock()
	h.endLocked(one)
	h.mu.Unlock()
	late := time.After(h.epilogLimit())
	select {
	case <-one.gone:
		return true, false
	case <-ctx.Done():
		return false, false
	case <-h.alive.Done():
		return false, false
	case <-late:
	}
	if h.drain(one) {
		return false, true
	}
	select {
	case <-one.gone:
		return true, false
	default:
		return false, false
	}
}

const (
	// mostEpilog is how long an epilog waits at most. A slurmd that is to reconfigure answers nobody until its epilogs have ended
	// (24.11.5 and 26.05.5), and slurmctld counts it as not responding.
	mostEpilog = time.Minute
	// blindEpilog is that while slurmctld does not tell the limit.
	blindEpilog = 20 * time.Second
	// configLimit bounds the question for it.
	configLimit = 10 * time.Second
)

// epilogLimit is how long an epilog may wait: 0.8 of the time after which slurmd ends it.
func (h *Holds) epilogLimit() time.Duration {
	ctx, cancel := context.WithTimeout(h.alive, configLimit)
	defer cancel()
	c, err := h.Config(ctx)
	if err != nil {
		return blindEpilog
	}
	return limitOf(c)
}

func limitOf(c slurm.Config) time.Duration {
	limit := mostEpilog
	for _, key := range []string{"EpilogTimeout", "PrologEpilogTimeout"} {
		number, _, _ := strings.Cut(c[key], " ")
		if seconds, err := strconv.Atoi(number); err == nil && seconds > 0 && seconds < 65534 { // that is for ever
			limit = min(limit, time.Duration(seconds)*time.Second*8/10)
		}
	}
	return limit
}

// hint tells the controller that a job's script is to end, and returns when no pod of the job is on the node, or ctx ends.
// However many say so, it is told and asked at most once in a while.
func (h *Holds) hint(ctx context.Context, job uint32) (over bool) {
	one := h.find(job)
	if one == nil {
		return false
	}
	for {
		h.mu.Lock()
		known := time.Since(one.none) < hintAgain
		wait, due := hintAgain-time.Since(one.hinted), false
		if !known && wait <= 0 && one.quiet == nil {
			one.hinted, one.quiet, due = time.Now(), make(chan struct{}), true
		}
		quiet := one.quiet
		h.mu.Unlock()
		if known {
			return true
		}
		if due {
			h.tell(ctx, one)
		}
		var later <-chan time.Time
		if quiet == nil {
			later = time.After(wait)
		}
		select {
		case <-one.gone:
			return true
		case <-quiet:
			return true
		case <-ctx.Done():
			return false
		case <-later:
		}
	}
}

// tell tells the controller that a job's script is to end, and asks for its pods.
func (h *Holds) tell(ctx context.Context, one *hold) {
	for tries := range patience {
		err := h.Controller.ReportStarted(ctx, wire.Started{Job: one.job, Ending: true})
		if err == nil {
			break
		}
		h.note(one, tries, err)
		if !h.pause(one, peers.PauseAfter(err, tries)) {
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.askLocked(one)
}
