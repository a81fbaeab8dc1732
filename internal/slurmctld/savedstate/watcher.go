package savedstate

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// WatcherOptions are a Watcher's surroundings. Only Store is needed for what its methods take; the rest is Run's.
type WatcherOptions struct {
	Store *Store
	// Serving returns the process id of the slurmctld that serves, 0 for none, and how often slurmctld was started
	// again. Published returns what is closed when that may have changed.
	Serving   func() (pid, restarts int)
	Published func() <-chan struct{}
	// AskStates asks slurmctld for the states of jobs. QuestionLimit bounds one question.
	AskStates     func(ctx context.Context, ids []string) (map[string]string, error)
	QuestionLimit func() time.Duration
	// Restarted is called when a slurmctld serves that was started again.
	Restarted func()
	// Alive ends with the agent, and Done is closed when it no longer serves.
	Alive context.Context
	Done  <-chan struct{}
}

// Watcher notes what slurmctld says and how it ends, and looks for the jobs that its crashes have lost. A nil
// Watcher does nothing.
type Watcher struct {
	*Store
	o WatcherOptions
	// ranAgain counts the jobs that run again, since the container's start.
	ranAgain atomic.Int64
	// stopped is the slurmctld that got SIGTERM.
	stopped atomic.Pointer[process.Process]
	// unsaved: slurmctld has said that it cannot save its state.
	unsaved atomic.Bool
}

// NewWatcher makes a Watcher of a Store.
func NewWatcher(o WatcherOptions) *Watcher { return &Watcher{Store: o.Store, o: o} }

// Self is how another agent knows this one, which began at a time.
func Self(began time.Time) string {
	address := "no address"
	all, _ := net.InterfaceAddrs() // a name is enough
	for _, one := range all {
		if ip, is := one.(*net.IPNet); is && ip.IP.IsGlobalUnicast() {
			address = ip.IP.String()
			break
		}
	}
	host, _ := os.Hostname() // the address is enough
	return fmt.Sprintf("%s (%s), process %d, since %s", host, address, os.Getpid(), began.UTC().Format(time.RFC3339))
}

// HeardLine takes a line of slurmctld's.
func (w *Watcher) HeardLine(line process.Line) {
	if w == nil {
		return
	}
	w.Heard.Line(line.Text, time.Now())
	if line.Level >= slog.LevelError && (strings.Contains(line.Text, "save state") || strings.Contains(line.Text, "writing file")) {
		w.unsaved.Store(true)
	}
}

// Stopping notes that a process got SIGTERM.
func (w *Watcher) Stopping(p *process.Process) {
	if w != nil {
		w.stopped.Store(p)
		w.unsaved.Store(false)
	}
}

// Ended notes how the main process has ended. Only one that got SIGTERM, says that all went well, and has not
// complained that it cannot save its state has ended in order.
func (w *Watcher) Ended(p *process.Process, status process.Status) {
	if w == nil {
		return
	}
	if w.stopped.Load() != p || status.ExitCode() != 0 || w.unsaved.Load() {
		if err := w.Crashed(); err != nil {
			w.Log(slog.LevelWarn,
				"cannot keep what slurmctld has logged of its last jobs; another container would not know which "+
					"jobs of srun are lost", slog.Any("error", err))
		}
		return
	}
	if err := w.Saved(); err != nil {
		w.Log(slog.LevelWarn,
			"cannot note that slurmctld has ended in order; its next start counts as that after a crash", slog.Any("error", err))
	}
}

// Run looks for the jobs that a crash has lost, each time that slurmctld serves anew. It ends with Done.
func (w *Watcher) Run() {
	go w.follow()
	judged, starts := 0, 0
	for {
		news := w.o.Published()
		if pid, restarts := w.o.Serving(); pid != 0 && pid != judged {
			if restarts != starts {
				starts = restarts
				w.o.Restarted()
			}
			if w.judge() {
				judged = pid
			}
		}
		select {
		case <-news:
		case <-w.o.Done:
			return
		}
	}
}

// judge asks slurmctld until it answers, or has ended.
func (w *Watcher) judge() bool {
	for tries := 0; ; tries++ {
		if pid, _ := w.o.Serving(); pid == 0 {
			return false
		}
		lost, again, err := w.Judge(func(ids []string) (map[string]string, error) {
			ctx, cancel := context.WithTimeout(w.o.Alive, w.o.QuestionLimit())
			defer cancel()
			return w.o.AskStates(ctx, ids)
		})
		w.report(lost, again)
		if err == nil {
			return true
		}
		w.Log(slog.LevelWarn, "cannot find out yet which jobs slurmctld has forgotten", slog.Any("error", err))
		select {
		case <-time.After(backoff.Grow(backoff.FirstTry, tries, backoff.LastTry)):
		case <-w.o.Done:
			return false
		}
	}
}

// mostLogged bounds how many jobs have a line of their own in the log. All are in the status.
const mostLogged = 200

func (w *Watcher) report(lost, again []Job) {
	w.ranAgain.Add(int64(len(again)))
	for i, job := range lost {
		if i == mostLogged {
			w.Log(slog.LevelError, "slurmctld has forgotten more jobs; slurmlet status has all", slog.Int("jobs", len(lost)-i))
			break
		}
		attrs := []slog.Attr{slog.String("job", job.Name), slog.String("kind", job.Kind), slog.Time("submitted", job.Submitted)}
		for _, one := range [][2]string{{"user", job.User}, {"nodes", job.Nodes}, {"script", job.Script}} {
			if one[1] != "" {
				attrs = append(attrs, slog.String(one[0], one[1]))
			}
		}
		w.Log(slog.LevelError, "slurmctld has forgotten a job by its crash, and the job must be submitted again", attrs...)
	}
	for i, job := range again {
		if i == mostLogged {
			break
		}
		w.Log(slog.LevelWarn, "slurmctld has forgotten by its crash that it had started a job: it ends there, and runs again",
			slog.String("job", job.Name), slog.String("nodes", job.Nodes))
	}
}

// follow notices when somebody has dealt with a lost job.
func (w *Watcher) follow() {
	const calm = 200 * time.Millisecond
	var files *watch.Watcher
	watched := ""
	files = watch.New(watch.Options{Done: w.o.Done, Calm: watch.For(calm), Changed: func() { _ = w.Reread() }}) // the last list stays
	go files.Run()
	for {
		news := w.o.Published()
		if dir := w.LostDir(); dir != "" && dir != watched && files.Add(dir) == nil {
			watched = dir
		}
		select {
		case <-news:
		case <-w.o.Done:
			return
		}
	}
}
