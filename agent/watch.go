package agent

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/slurmlet/slurmlet/cgroup"
)

const (
	// calm is how long the pod is left to change before it is looked at: a resize
	// writes several files.
	calm = 100 * time.Millisecond
	// lookEvery is how often the limits are looked at where the kernel cannot tell
	// that they changed (fs.inotify.max_user_instances and max_user_watches).
	lookEvery = time.Minute
	// glanceEvery is the same for the ends of steps, which are waited for.
	glanceEvery = time.Second
)

// watcher turns changes of the pod into events: of its limits, of the
// downward-API volume, and of the sockets of slurmstepd in the spool directory.
type watcher struct {
	agent *Agent
	files *fsnotify.Watcher // nil where inotify cannot be had
	// limits are the files that hold them, info the volume, spool slurmd's directory.
	limits      []string
	info, spool string
	// spooled: the spool directory is watched, which slurmd may have to make first.
	spooled bool
	// steps are the sockets that were in it at the last glance.
	steps []string
}

// watchPod watches until the agent's end.
func (a *Agent) watchPod() {
	files, err := fsnotify.NewWatcher()
	w := &watcher{agent: a, files: files, info: filepath.Join(a.Root, a.Config.PodInfo), spool: filepath.Join(a.Root, a.Config.SpoolDir)}
	if err == nil {
		err = w.add()
	}
	var slow <-chan time.Time
	if err != nil {
		a.tell(slog.LevelWarn, "the kernel cannot tell of a resize: the limits are looked at every "+lookEvery.String(), slog.Any("error", err))
		slow = time.Tick(lookEvery)
	}
	var events <-chan fsnotify.Event
	var faults <-chan error
	if files != nil {
		defer files.Close()
		events, faults = files.Events, files.Errors
	}
	w.run(events, faults, slow)
}

// add watches what is there. A volume that the pod does not have is no fault.
func (w *watcher) add() error {
	var err error
	if w.limits, err = w.agent.machine.LimitFiles(); err != nil && !errors.Is(err, cgroup.ErrNotUnified) {
		return err
	}
	for _, path := range w.limits {
		if err := w.files.Add(path); err != nil {
			return err
		}
	}
	if err := w.files.Add(w.info); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = w.addSpool() // slurmd may not have made it
	return nil
}

// addSpool is tried again as long as slurmd has not made its directory.
func (w *watcher) addSpool() error {
	if w.files == nil {
		return errors.New("there is no inotify instance")
	}
	if w.spooled {
		return nil
	}
	err := w.files.Add(w.spool)
	w.spooled = err == nil
	return err
}

// watchSpool watches a directory that slurmd has made; where that cannot be had,
// it returns when to glance at it.
func (w *watcher) watchSpool() <-chan time.Time {
	err := w.addSpool()
	if err == nil || errors.Is(err, fs.ErrNotExist) { // SlurmdSpoolDir is another one, which fit.go tells
		return nil
	}
	w.agent.tell(slog.LevelWarn, "the kernel cannot tell of the ends of steps: they are looked for every "+glanceEvery.String(), slog.Any("error", err))
	w.steps = w.agent.stepNames()
	return time.Tick(glanceEvery)
}

// glance looks for sockets that have gone.
func (w *watcher) glance() {
	before := w.steps
	w.steps = w.agent.stepNames()
	if slices.ContainsFunc(before, func(step string) bool { return !slices.Contains(w.steps, step) }) {
		w.agent.stepEnded()
	}
}

func (w *watcher) run(events <-chan fsnotify.Event, faults <-chan error, slow <-chan time.Time) {
	changed := time.NewTimer(calm) // what was missed between the first look and the watch
	var glances <-chan time.Time
	for {
		select {
		case <-w.agent.over:
			return
		case e := <-events:
			switch {
			case w.changesPod(e):
				changed.Reset(calm)
			case w.endsStep(e):
				w.agent.stepEnded()
			}
		case err := <-faults:
			// Events were lost (fs.inotify.max_queued_events): look at everything.
			w.agent.tell(slog.LevelWarn, "lost changes of the pod's files; looking at them", slog.Any("error", err))
			changed.Reset(calm)
			w.agent.stepEnded()
		case <-w.agent.spoolMade:
			if glances == nil {
				glances = w.watchSpool()
			}
		case <-glances:
			w.glance()
		case <-slow:
			changed.Reset(calm)
		case <-changed.C:
			now, err := w.agent.measure()
			w.agent.post(measured{now, time.Now(), err})
		}
	}
}

// changesPod: the kubelet swaps the volume's "..data"; a limit's file is written.
func (w *watcher) changesPod(e fsnotify.Event) bool {
	return slices.Contains(w.limits, e.Name) || filepath.Dir(e.Name) == w.info
}

// endsStep: slurmstepd removes its socket, <node>_<job>.<step>, when it ends.
func (w *watcher) endsStep(e fsnotify.Event) bool {
	name := filepath.Base(e.Name)
	return e.Has(fsnotify.Remove) && filepath.Dir(e.Name) == w.spool && strings.HasPrefix(name, w.agent.Config.NodeName+"_")
}

func (a *Agent) stepEnded() {
	a.stepEnds.ring()
	a.post(stepsEnded{})
}
