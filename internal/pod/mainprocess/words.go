package mainprocess

import (
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// Words are a line of the daemon, or how it ended.
type Words struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// words keeps the daemon's lines that the status and the exit may need.
type words struct {
	// any is the last error that may say what a start waits for, or why the daemon has ended; error is none that passes
	// by itself. end is how a main process has ended.
	any, error, end atomic.Pointer[Words]
}

// note remembers an error of the daemon's. One whose cause is known and harmless stays in the log, and is none here. One
// that passes by itself may be what a start waits for.
func (w *words) note(text string, isNoise func(string) (harmless, passes bool)) {
	if !strings.ContainsFunc(text, unicode.IsLetter) { // the frame of a warning in large letters
		return
	}
	harmless, passes := isNoise(text)
	said := &Words{At: time.Now(), Text: text}
	if !harmless || passes {
		w.any.Store(said)
	}
	if !harmless {
		w.error.Store(said)
	}
}

// epitaph says how a process ended, with its last error.
func (w *words) epitaph(program string, p *process.Process, status process.Status) string {
	what := program + ": " + status.String()
	if last := w.any.Load(); last != nil && last.At.After(p.Started()) && status.TermSignal == 0 {
		what += ": " + last.Text
	}
	return what
}
