package slurmd

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
	"github.com/slurmlet/slurmlet/internal/slurmd/podsize"
)

const (
	// calm is how long the pod is left to change before it is looked at: a resize
	// writes several files.
	calm = 100 * time.Millisecond
	// glanceEvery is how often the agent looks for ends of steps where the kernel cannot
	// report them.
	glanceEvery = time.Second
)

// watcher turns changes of the pod into events: of its limits, of the
// downward-API volume, and of the sockets of slurmstepd in the spool directory.
type watcher struct {
	*watch.Watcher
	node *Node
	// limits are the files that hold them, info is the volume.
	limits []string
	info   string
}

func newWatcher(n *Node, o watch.Options) *watcher {
	w := &watcher{node: n, info: filepath.Join(n.Root, n.SizeOptions.PodInfo)}
	o.Done, o.Calm, o.Concerns, o.Lost = n.Done, watch.For(calm), w.concerns, w.lost
	o.Changed = func() {
		now, err := podsize.Measure(n.subtree.Machine, n.SizeOptions)
		now.Traits = n.completed(now.Traits.On(n.machine.Traits()))
		n.Post(node.Measured{Allocation: now, At: time.Now(), Err: err})
	}
	w.Watcher = watch.New(o)
	return w
}

// watchPod watches until the agent's end.
func (w *watcher) watchPod() {
	if err := w.add(); err != nil {
		w.node.Log(slog.LevelWarn, "the kernel cannot report a resize: the limits are looked at every "+
			watch.Every.String(), slog.Any("error", err))
		w.Tick(watch.Every)
	}
	go w.awaitSpool()
	w.Look() // a change between the first look and the watch has no event
	w.Run()
}

// add watches what is there. A volume that the pod does not have is no fault, nor is a
// directory that slurmd has not made yet.
func (w *watcher) add() error {
	var err error
	if w.limits, err = w.node.subtree.Machine.LimitFiles(); err != nil && !errors.Is(err, cgroup.ErrNotUnified) {
		return err
	}
	for _, path := range w.limits {
		if err := w.Add(path); err != nil {
			return err
		}
	}
	if err := w.Add(w.info); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = w.Add(w.node.spool.Path()) // awaitSpool tries again
	return nil
}

// awaitSpool watches the directory that slurmd makes. Where that cannot be had, it looks
// for the ends of steps itself.
func (w *watcher) awaitSpool() {
	for {
		select {
		case <-w.Done:
			return
		case <-w.node.spoolMade:
		}
		err := w.Add(w.node.spool.Path())
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // SlurmdSpoolDir is another one; podsize.Mismatches reports that
			w.node.Log(slog.LevelWarn, "the kernel cannot report the ends of steps: they are looked for every "+
				glanceEvery.String(), slog.Any("error", err))
			w.glance()
			return
		}
	}
}

// glance looks for sockets that have gone.
func (w *watcher) glance() {
	ticks := time.NewTicker(glanceEvery)
	defer ticks.Stop()
	for before := w.node.spool.Names(); ; {
		select {
		case <-w.Done:
			return
		case <-ticks.C:
		}
		now := w.node.spool.Names()
		gone := slices.DeleteFunc(before, func(step string) bool { return slices.Contains(now, step) })
		for _, step := range gone {
			w.node.requeuer.Leave(step, time.Now())
			w.node.userFiles.StepEnds(step)
		}
		if len(gone) > 0 {
			w.node.stepEnded()
		}
		before = now
	}
}

// lost: the kernel has dropped events (fs.inotify.max_queued_events). Any of them may have
// been the end of a step.
func (w *watcher) lost(err error) {
	w.node.Log(slog.LevelWarn, "lost changes of the pod's files; looking at them", slog.Any("error", err))
	w.node.stepEnded()
}

// concerns: the kubelet swaps the volume's "..data"; a limit's file is written.
func (w *watcher) concerns(e fsnotify.Event) bool {
	if step, ends := w.endsStep(e); ends {
		w.node.userFiles.StepEnds(step)
		w.node.requeuer.Leave(step, time.Now())
		w.node.stepEnded()
	}
	if e.Has(fsnotify.Create) && filepath.Dir(e.Name) == w.node.spool.Path() {
		w.node.userFiles.StepBegins()
	}
	return slices.Contains(w.limits, e.Name) || filepath.Dir(e.Name) == w.info
}

// endsStep: slurmstepd removes its socket, <node>_<job>.<step>, when it ends.
func (w *watcher) endsStep(e fsnotify.Event) (step string, ends bool) {
	step, is := w.node.spool.StepOf(e.Name)
	return step, is && e.Has(fsnotify.Remove)
}

// stepEnded has everybody look who waits for the end of a step.
func (n *Node) stepEnded() {
	n.stepEnds.Ring()
	n.Post(node.StepsEnded{})
}
