package mainprocess

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// isMain accepts the main process's messages, and no other's: users' processes share the pod, and some are the daemon's
// descendants. A daemon that has handed over sends its barrier afterwards, so it is heard until its end.
func (m *Main) isMain(pid, _, _ int) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.process != nil && m.process.PID() == pid || m.former != nil && m.former.PID() == pid
}

// notified adopts a process that MAINPID names at once, while it is sure to be the one that was meant: its barrier is
// released when this returns.
func (m *Main) notified(n notify.Message) {
	if n.MainPID != 0 && n.MainPID != n.PID {
		p, err := m.adopt(n.MainPID, n.PID)
		if err != nil {
			m.Log(slog.LevelError, "cannot follow the daemon's hand-over", slog.Any("error", err), slog.Int("pid", n.MainPID))
			return
		}
		m.Changed(p.PID(), process.Began(m.Root, p))
	}
	if n.Ready {
		m.Kiosk.Ready()
		m.IsReady()
	}
}

// adopt makes pid the main process, by the word of the present one; or whom pid has named itself in the meantime, because
// its predecessor's word was late.
func (m *Main) adopt(pid, by int) (*process.Process, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.process == nil || m.process.PID() != by {
		return nil, fmt.Errorf("process %d has handed over before", by)
	}
	p, err := m.Table.Adopt(m.early.last(pid, time.Now()))
	if err == nil {
		m.former = m.process
		m.takeOver(p)
	}
	return p, err
}

func (m *Main) refused(r notify.Refusal) {
	m.Log(slog.LevelWarn, "a notification was refused",
		slog.Int("pid", r.PID), slog.Int("uid", r.UID), slog.Any("error", r.Reason), slog.Int("unreported", r.Unreported))
}

// handOverTime is what slurmd has from its last words to the message that names its
// successor. In between it waits for one process to end.
const handOverTime = 3 * time.Second

// relinquishing begins the last words of a slurmd whose successor is up; its pid follows.
const relinquishing = "Relinquishing control to new slurmd process ("

// heardHandOver watches a slurmd that re-executes itself. slurmd forks twice for its
// successor, and the process between calls exit(3) as a copy of a process with threads, whose
// locks stay taken: about one of some hundred hangs there, on a machine with several CPUs
// (24.11). slurmd would wait for it for ever, and the agent would not learn the successor's
// pid: the next reconfigure, and the pod's end, would miss the slurmd that runs.
func (m *Main) heardHandOver(text string) {
	rest, found := strings.CutPrefix(text, relinquishing)
	if !found || m.Program != "slurmd" {
		return
	}
	successor, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	main, said := m.Process(), time.Now()
	if err != nil || main == nil || main.PID() == successor { // the message may be heard first
		return
	}
	time.AfterFunc(handOverTime, func() { m.freeHandOver(successor, said) })
}

// freeHandOver ends what keeps the main process from its end, which it has announced: a
// fork that is older than its last words. A later main process has none that is as old.
func (m *Main) freeHandOver(successor int, said time.Time) {
	main := m.Process()
	if main == nil || main.PID() == successor {
		return
	}
	ended := main.EndForks(func(pid int) bool {
		at, err := process.StartTime(m.Root, pid)
		return err == nil && at.Before(said)
	})
	if ended > 0 {
		m.Log(slog.LevelWarn, "slurmd's hand-over hung: a process that it had forked did not end, and was killed",
			slog.Int("main", main.PID()))
	}
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
