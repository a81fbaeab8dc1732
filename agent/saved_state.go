package agent

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
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
)

// savedState is what slurmctld saves, and what its crashes lose of it. It is nil for other roles.
type savedState struct {
	*savedstate.Store
	agent *Agent
	// again counts the jobs that run again, since the container's start.
	again atomic.Int64
	// stopped is the slurmctld that was told to stop.
	stopped atomic.Pointer[process.Process]
	// unsaved: slurmctld has said that it cannot save its state.
	unsaved atomic.Bool
}

func (a *Agent) newSavedState() *savedState {
	return &savedState{agent: a, Store: savedstate.NewStore(savedstate.Options{
		UID: a.daemon.uid(), GID: a.daemon.gid(), Self: self(a.began), Log: a.log,
		Held: func(by string) {
			a.log(slog.LevelWarn, "slurmctld is not started: another agent has StateSaveLocation, and this one waits for its end", slog.String("agent", by))
			a.post(lifecycle.StateHeld{Why: "another agent has StateSaveLocation, and this one waits for its end: " + by})
		},
	})}
}

// self is how another agent knows this one.
func self(began time.Time) string {
	address := "no address"
	all, _ := net.InterfaceAddrs() // a name is enough
	for _, one := range all {
		if ip, is := one.(*net.IPNet); is && ip.IP.IsGlobalUnicast() {
			address = ip.IP.String()
			break
		}
	}
	return fmt.Sprintf("%s (%s), process %d, since %s", hostname(), address, os.Getpid(), began.UTC().Format(time.RFC3339))
}

// heard takes a line of slurmctld's.
func (s *savedState) heard(line process.Line) {
	if s == nil {
		return
	}
	s.Heard.Line(line.Text, time.Now())
	if line.Level >= slog.LevelError && (strings.Contains(line.Text, "save state") || strings.Contains(line.Text, "writing file")) {
		s.unsaved.Store(true)
	}
}

// stopping notes that a process was told to stop.
func (s *savedState) stopping(p *process.Process) {
	if s != nil {
		s.stopped.Store(p)
		s.unsaved.Store(false)
	}
}

// ended notes how the main process has ended. Only one that was told to stop, says that all went well, and has not
// complained that it cannot save its state has ended in order.
func (s *savedState) ended(p *process.Process, status process.Status) {
	if s == nil {
		return
	}
	if s.stopped.Load() != p || status.ExitCode() != 0 || s.unsaved.Load() {
		if err := s.Crashed(); err != nil {
			s.agent.log(slog.LevelWarn, "cannot keep what slurmctld has told of its last jobs; another container would not know which jobs of srun are lost", slog.Any("error", err))
		}
		return
	}
	if err := s.Saved(); err != nil {
		s.agent.log(slog.LevelWarn, "cannot note that slurmctld has ended in order; its next start counts as that after a crash", slog.Any("error", err))
	}
}

// run looks for the jobs that a crash has lost, each time that slurmctld serves anew.
func (s *savedState) run() {
	go s.follow()
	judged, starts := 0, 0
	for {
		news := s.agent.published.Next()
		if now := s.agent.status.Load(); now.State == lifecycle.Ready && now.Main != nil && now.Main.PID != judged {
			if now.Restarts != starts {
				starts = now.Restarts
				s.agent.feed.Renew() // the nodes' agents look for jobs that it has forgotten
			}
			if s.judge() {
				judged = now.Main.PID
			}
		}
		select {
		case <-news:
		case <-s.agent.over:
			return
		}
	}
}

// judge asks slurmctld until it answers, or has ended.
func (s *savedState) judge() bool {
	for tries := 0; s.agent.status.Load().State == lifecycle.Ready; tries++ {
		lost, again, err := s.Judge(func(ids []string) (map[string]string, error) {
			ctx, cancel := context.WithTimeout(s.agent.alive, s.agent.questionLimit())
			defer cancel()
			return s.agent.client.States(ctx, ids)
		})
		s.tell(lost, again)
		if err == nil {
			return true
		}
		s.agent.log(slog.LevelWarn, "cannot tell yet which jobs slurmctld has forgotten", slog.Any("error", err))
		select {
		case <-time.After(backoff.Grow(backoff.FirstTry, tries, backoff.LastTry)):
		case <-s.agent.over:
			return false
		}
	}
	return false
}

// mostTold is how many jobs have a line of their own in the log. All are in the status.
const mostTold = 200

func (s *savedState) tell(lost, again []savedstate.Job) {
	s.again.Add(int64(len(again)))
	for i, job := range lost {
		if i == mostTold {
			s.agent.log(slog.LevelError, "slurmctld has forgotten more jobs; slurmlet status has all", slog.Int("jobs", len(lost)-i))
			break
		}
		attrs := []slog.Attr{slog.String("job", job.Name), slog.String("kind", job.Kind), slog.Time("submitted", job.Submitted)}
		for _, one := range [][2]string{{"user", job.User}, {"nodes", job.Nodes}, {"script", job.Script}} {
			if one[1] != "" {
				attrs = append(attrs, slog.String(one[0], one[1]))
			}
		}
		s.agent.log(slog.LevelError, "slurmctld has forgotten a job by its crash, and the job must be submitted again", attrs...)
	}
	for i, job := range again {
		if i == mostTold {
			break
		}
		s.agent.log(slog.LevelWarn, "slurmctld has forgotten by its crash that it had started a job: it ends there, and runs again",
			slog.String("job", job.Name), slog.String("nodes", job.Nodes))
	}
}

// follow notices when somebody has dealt with a lost job.
func (s *savedState) follow() {
	const calm = 200 * time.Millisecond
	var files *watch.Watcher
	watched := ""
	files = watch.New(watch.Options{Done: s.agent.over, Calm: watch.For(calm), Changed: func() { _ = s.Reread() }}) // the last list stays
	go files.Run()
	for {
		news := s.agent.published.Next()
		if dir := s.LostDir(); dir != "" && dir != watched && files.Add(dir) == nil {
			watched = dir
		}
		select {
		case <-news:
		case <-s.agent.over:
			return
		}
	}
}

// LostJobsStatus is what crashes of slurmctld have lost.
type LostJobsStatus struct {
	// Lost are the jobs that slurmctld has forgotten, until somebody removes their directories in Dir.
	Lost []savedstate.Job `json:"lost,omitempty"`
	// Again are those that run again since the last crash, because slurmctld had forgotten their start.
	Again []savedstate.Job `json:"again,omitempty"`
	Dir   string           `json:"dir,omitempty"`
	// AgainTotal counts those that ran again since the container's start.
	AgainTotal int64 `json:"again_total"`
	// Fault is why nothing keeps a second slurmctld off the state, empty when a lock does.
	Fault string `json:"fault,omitempty"`
}

func (s *savedState) describe() *LostJobsStatus {
	if s == nil {
		return nil
	}
	lost, again := s.Lost()
	return &LostJobsStatus{Lost: lost, Again: again, Dir: s.LostDir(), AgainTotal: s.again.Load(), Fault: s.Unlocked()}
}

// mostRows is how many jobs the text of the status has.
const mostRows = 20

func (s LostJobsStatus) rows(row func(name, format string, args ...any)) {
	for i, job := range s.Lost {
		if i == mostRows {
			row("Lost jobs", "%d more, in %s", len(s.Lost)-i, s.Dir)
			break
		}
		text := fmt.Sprintf("%s (%s)", job.Name, job.Kind)
		if job.User != "" {
			text += " of " + job.User
		}
		if job.JobName != "" {
			text += ", " + job.JobName
		}
		text += ", submitted " + job.Submitted.Format(time.RFC3339)
		if job.Nodes != "" {
			text += ", had started on " + job.Nodes
		}
		if job.Script != "" {
			text += ": " + job.Script
		}
		row("Lost job", "%s", text)
	}
	for i, job := range s.Again {
		if i == mostRows {
			row("Jobs that run again", "%d more", len(s.Again)-i)
			break
		}
		row("Runs again", "%s, had started on %s", job.Name, job.Nodes)
	}
	if s.Fault != "" {
		row("Note", "%s", s.Fault)
	}
}
