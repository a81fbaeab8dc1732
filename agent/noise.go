package agent

import (
	"strings"
	"time"
	"unicode"
)

// slurmdNoise begins an error that slurmd writes at every start, because the pod is a part of the machine.
const slurmdNoise = "Node configuration differs from hardware"

// isNoise says whether the cause of a daemon's error is known and harmless. It stays in the log, and is no error of the
// status. What passes by itself at a start may be what the start waits for.
func (a *Agent) isNoise(line string) (harmless, passes bool) {
	if !strings.ContainsFunc(line, unicode.IsLetter) { // the frame of a warning in large letters
		return true, false
	}
	if a.Config.Role == Slurmd && strings.HasPrefix(line, slurmdNoise) {
		return true, false
	}
	return a.ctld.IsNoise(line)
}

// heardError remembers a daemon's error for the status, and for the reason of a state that lasts.
func (a *Agent) heardError(text string) {
	harmless, passes := a.isNoise(text)
	said := &LastError{At: time.Now(), Text: text}
	if !harmless || passes {
		a.lastSaid.Store(said)
	}
	if !harmless {
		a.lastError.Store(said)
	}
}
