package agent

import (
	"log/slog"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/process"
)

// handOverTime is what a daemon has from its last words to the message that names its
// successor. In between it waits for one process to end.
const handOverTime = 3 * time.Second

// heardLastWords: slurmd, slurmctld and sackd say so when their successor is up. That one
// is forked by a fork, and the process between calls exit(3), as a copy of one with
// threads, whose locks nobody will release: about one of some hundred hangs there, on a
// machine with several CPUs (slurmd 24.11). The daemon would wait for it for ever, and
// nobody would learn who took over: the next reconfigure, and the pod's end, would miss
// the slurmd that runs.
func (a *Agent) heardLastWords(text string) {
	if strings.HasPrefix(text, "Relinquishing control to new ") {
		main := a.mainProcess()
		time.AfterFunc(handOverTime, func() { a.freeHandOver(main) })
	}
}

func (a *Agent) mainProcess() *process.Process {
	a.mainLock.Lock()
	defer a.mainLock.Unlock()
	return a.main
}

// freeHandOver ends what keeps the main process from its end, which it has announced.
func (a *Agent) freeHandOver(main *process.Process) {
	if main == nil || a.mainProcess() != main {
		return
	}
	if ended := main.EndForks(); ended > 0 {
		a.tell(slog.LevelWarn, "the daemon's hand-over hung: a process that it had forked did not end, and was killed", slog.Int("main", main.PID()))
	}
}
