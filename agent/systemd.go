package agent

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// unit is the agent as systemd sees it, where it runs as a unit of Type=notify or
// notify-reload and not in a container (sd_notify(3)). Only the owner touches it.
type unit struct {
	phase  phase
	status string
	// reloads is the daemon that was told to read its configuration, 0 for none.
	reloads int
}

// phase is what a unit of Type=notify is said to be in.
type phase string

const (
	activating   phase = ""
	active       phase = systemd.SdNotifyReady
	reloadingNow phase = systemd.SdNotifyReloading
	deactivating phase = systemd.SdNotifyStopping
)

// hungUp: the unit reloads until another process has taken the daemon's place. What
// reads its configuration in place has done so at once.
func (u unit) hungUp(l lifecycle.State) unit {
	if u.phase != active {
		return u
	}
	u.phase = reloadingNow
	if l.Announces {
		u.reloads = l.Main
	}
	return u
}

// gaveUp: the daemon has not taken its configuration, and goes on with the one it had.
func (u unit) gaveUp(main int) unit {
	if u.reloads == main {
		u.reloads = 0
	}
	return u
}

// follow is the unit of a life. It is active when the node is registered, and stays
// so when the daemon is started again.
func (u unit) follow(l lifecycle.State) unit {
	if u.reloads != l.Main {
		u.reloads = 0 // its successor is what counts
	}
	switch {
	case l.IsOver():
		u.phase = deactivating
	case l.Phase == supervisor.Reloading && u.phase == active:
		u.phase = reloadingNow
	case l.Phase.Serving() && l.Phase != supervisor.Reloading && u.reloads == 0:
		u.phase = active
	}
	u.status = string(l.Phase)
	for _, more := range []string{l.Activity.String(), l.Reason} {
		if more != "" {
			u.status += ", " + more
		}
	}
	u.status = strings.ReplaceAll(u.status, "\n", "; ")
	return u
}

// since is the message that tells systemd what has changed, empty for nothing.
func (u unit) since(before unit, now time.Duration) string {
	var lines []string
	if u.status != before.status {
		lines = append(lines, "STATUS="+u.status)
	}
	if u.phase != before.phase {
		lines = append(lines, string(u.phase))
	}
	if u.phase == reloadingNow && before.phase != reloadingNow {
		lines = append(lines, fmt.Sprintf("MONOTONIC_USEC=%d", now.Microseconds()))
	}
	return strings.Join(lines, "\n")
}

// supervised says whether there is a systemd to tell.
func supervised() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// inform tells systemd of the next unit.
func (a *Agent) inform(next unit) {
	if !supervised() {
		return
	}
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	if message := next.since(a.unit, time.Duration(now.Nano())); err == nil && message != "" {
		_, err = systemd.SdNotify(false, message)
	}
	if err != nil {
		a.log(slog.LevelWarn, "cannot tell systemd", slog.Any("error", err))
	}
	a.unit = next
}

// informOfReload answers systemd's SIGHUP, with RELOADING and READY in any case
// (systemd.service(5), Type=notify-reload).
func (a *Agent) informOfReload() {
	a.inform(a.unit.hungUp(a.life))
	if main := a.unit.reloads; main != 0 {
		time.AfterFunc(conf.TakeLimit, func() { a.post(reloadOverdue{main}) })
		return
	}
	a.inform(a.unit.follow(a.life))
}

// watchdog tells systemd that the owner lives, twice as often as it must
// (sd_watchdog_enabled(3)).
func (a *Agent) watchdog() {
	if os.Getpid() == 1 {
		_ = os.Unsetenv("WATCHDOG_PID") // in a pid namespace of its own, systemd before 258 gives the pid outside
	}
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		a.log(slog.LevelWarn, "cannot serve systemd's watchdog", slog.Any("error", err))
	}
	if err != nil || every == 0 {
		return
	}
	ticks := time.NewTicker(every / 2)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			a.post(pulse{})
		case <-a.over:
			return
		}
	}
}

// ofUnit says whether an event is of the unit alone.
func (a *Agent) ofUnit(e lifecycle.Event) bool {
	switch e := e.(type) {
	case pulse:
		_, _ = systemd.SdNotify(false, systemd.SdNotifyWatchdog)
	case reloadOverdue:
		a.inform(a.unit.gaveUp(e.main).follow(a.life))
	default:
		return false
	}
	return true
}

type (
	// pulse: systemd wants to hear of the owner.
	pulse struct{}
	// reloadOverdue: main has had its time to read its configuration.
	reloadOverdue struct{ main int }
)
