// Package systemd tells systemd of an agent that runs as a unit of Type=notify or notify-reload, and not in a container
// (sd_notify(3)).
package systemd

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Life has what the unit reports to systemd (sd_notify(3)).
type Life struct {
	// Text is the state in words.
	Text string
	// Main is the daemon's process id, 0 for none. Announces: its successor takes its place after a reload.
	Main      int
	Announces bool
	// Serving: the daemon does its work, also while it is Reloading its configuration. Over: the end has begun.
	Serving, Reloading, Over bool
}

// Unit is the agent as systemd sees it. Only the goroutine that owns the agent's state uses it, but for Watch.
type Unit struct {
	// ReloadLimit is how long a daemon may take to read its configuration.
	ReloadLimit time.Duration
	// Post hands an event to that goroutine, which returns it by Take.
	Post func(event any)
	Log  func(level slog.Level, text string, attrs ...slog.Attr)

	state state
}

// Supervised says whether there is a systemd to tell.
func Supervised() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// Follow tells systemd of the next life.
func (u *Unit) Follow(l Life) { u.inform(u.state.follow(l)) }

// Reload answers systemd's SIGHUP, with RELOADING and READY in any case
// (systemd.service(5), Type=notify-reload).
func (u *Unit) Reload(l Life) {
	u.inform(u.state.hungUp(l))
	if main := u.state.reloads; main != 0 {
		time.AfterFunc(u.ReloadLimit, func() { u.Post(reloadOverdue{main}) })
		return
	}
	u.Follow(l)
}

// Watch serves systemd's watchdog until done is closed: it tells systemd that the owner lives, twice as often as it must
// (sd_watchdog_enabled(3)).
func (u *Unit) Watch(done <-chan struct{}) {
	if os.Getpid() == 1 {
		_ = os.Unsetenv("WATCHDOG_PID") // in a pid namespace of its own, systemd before 258 gives the pid outside
	}
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		u.Log(slog.LevelWarn, "cannot serve systemd's watchdog", slog.Any("error", err))
	}
	if err != nil || every == 0 {
		return
	}
	ticks := time.NewTicker(every / 2)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			u.Post(pulse{})
		case <-done:
			return
		}
	}
}

type (
	// pulse: systemd wants to hear of the owner.
	pulse struct{}
	// reloadOverdue: main has had its time to read its configuration.
	reloadOverdue struct{ main int }
)

// Take says whether an event is one of Post's, and handles it then.
func (u *Unit) Take(event any, l Life) bool {
	switch e := event.(type) {
	case pulse:
		_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
	case reloadOverdue:
		u.inform(u.state.gaveUp(e.main).follow(l))
	default:
		return false
	}
	return true
}

// inform tells systemd of the next state.
func (u *Unit) inform(next state) {
	if !Supervised() {
		return
	}
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	if message := next.since(u.state, time.Duration(now.Nano())); err == nil && message != "" {
		_, err = daemon.SdNotify(false, message)
	}
	if err != nil {
		u.Log(slog.LevelWarn, "cannot tell systemd", slog.Any("error", err))
	}
	u.state = next
}

// state has what was reported to systemd last.
type state struct {
	phase  phase
	status string
	// reloads is the daemon that was told to read its configuration, 0 for none.
	reloads int
}

// phase is what a unit of Type=notify is said to be in.
type phase string

const (
	activating   phase = ""
	active       phase = daemon.SdNotifyReady
	reloadingNow phase = daemon.SdNotifyReloading
	deactivating phase = daemon.SdNotifyStopping
)

// hungUp: the unit reloads until another process has taken the daemon's place. What
// reads its configuration in place has done so at once.
func (s state) hungUp(l Life) state {
	if s.phase != active {
		return s
	}
	s.phase = reloadingNow
	if l.Announces {
		s.reloads = l.Main
	}
	return s
}

// gaveUp: the daemon has not taken its configuration, and goes on with the one it had.
func (s state) gaveUp(main int) state {
	if s.reloads == main {
		s.reloads = 0
	}
	return s
}

// follow is the state of a life. The unit is active when the node is registered, and stays
// so when the daemon is started again.
func (s state) follow(l Life) state {
	if s.reloads != l.Main {
		s.reloads = 0 // its successor is what counts
	}
	switch {
	case l.Over:
		s.phase = deactivating
	case l.Reloading && s.phase == active:
		s.phase = reloadingNow
	case l.Serving && !l.Reloading && s.reloads == 0:
		s.phase = active
	}
	s.status = strings.ReplaceAll(l.Text, "\n", "; ")
	return s
}

// since is the message that tells systemd what has changed, empty for nothing.
func (s state) since(before state, now time.Duration) string {
	var lines []string
	if s.status != before.status {
		lines = append(lines, "STATUS="+s.status)
	}
	if s.phase != before.phase {
		lines = append(lines, string(s.phase))
	}
	if s.phase == reloadingNow && before.phase != reloadingNow {
		lines = append(lines, fmt.Sprintf("MONOTONIC_USEC=%d", now.Microseconds()))
	}
	return strings.Join(lines, "\n")
}
