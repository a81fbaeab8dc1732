package agent

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/process"
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
	time.AfterFunc(handOverTime, func() { a.freeHandOver(main, said) })
}

func (a *Agent) mainProcess() *process.Process {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	return a.main
}

// freeHandOver ends what keeps the main process from its end, which it has announced: a
// fork that is older than its last words.
func (a *Agent) freeHandOver(main *process.Process, said time.Time) {
	if a.mainProcess() != main {
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
