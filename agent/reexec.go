package agent

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// handOverTime is what slurmd has from its last words to the message that names its
// successor. In between it waits for one process to end.
const handOverTime = 3 * time.Second

// relinquishing begins the last words of a slurmd whose successor is up; its pid follows.
const relinquishing = "Relinquishing control to new slurmd process ("

// heardLastWords watches a slurmd that re-executes itself. slurmd forks twice for its
// successor, and the process between calls exit(3) as a copy of a process with threads, whose
// locks stay taken: about one of some hundred hangs there, on a machine with several CPUs
// (24.11). slurmd would wait for it for ever, and the agent would not learn the successor's
// pid: the next reconfigure, and the pod's end, would miss the slurmd that runs.
func (a *Agent) heardLastWords(text string) {
	rest, found := strings.CutPrefix(text, relinquishing)
	if !found || a.Config.Role != Slurmd {
		return
	}
	successor, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	main, said := a.mainProcess(), time.Now()
	if err != nil || main == nil || main.PID() == successor { // the message may be heard first
		return
	}
	time.AfterFunc(handOverTime, func() { a.freeHandOver(successor, said) })
}

// early is what processes of root's have said about their successors before they were known
// themselves: while one hand-over hangs, the successor may hand over in its turn. What one has said
// counts once the main process has named it.
type early struct {
	lock sync.Mutex
	said []handOver
}

type handOver struct {
	from, to int
	at       time.Time
}

const (
	// mostEarly bounds what is kept. A slurmd takes a reconfigure every half second at most.
	mostEarly = 16
	// earlyTime is well above handOverTime, and well below the time in which a pid becomes another's.
	earlyTime = 3 * handOverTime
)

func (e *early) hear(m notify.Message) {
	if m.MainPID == 0 || m.MainPID == m.PID {
		return
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	e.said = append(e.said, handOver{m.PID, m.MainPID, time.Now()})
	e.said = e.said[max(0, len(e.said)-mostEarly):]
}

// last is the last successor in the line that begins with pid.
func (e *early) last(pid int, now time.Time) int {
	e.lock.Lock()
	defer e.lock.Unlock()
	for _, h := range e.said { // in the order in which they were said
		if h.from == pid && now.Sub(h.at) < earlyTime {
			pid = h.to
		}
	}
	return pid
}

func (a *Agent) mainProcess() *process.Process {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	return a.process
}

// freeHandOver ends what keeps the main process from its end, which it has announced: a
// fork that is older than its last words. A later main process has none that is as old.
func (a *Agent) freeHandOver(successor int, said time.Time) {
	main := a.mainProcess()
	if main == nil || main.PID() == successor {
		return
	}
	ended := main.EndForks(func(pid int) bool {
		at, err := process.StartTime(a.Root, pid)
		return err == nil && at.Before(said)
	})
	if ended > 0 {
		a.log(slog.LevelWarn, "slurmd's hand-over hung: a process that it had forked did not end, and was killed", slog.Int("main", main.PID()))
	}
}
