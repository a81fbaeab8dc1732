package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// TestUnit: what systemd hears of a life.
func TestUnit(t *testing.T) {
	const at = 42 * time.Microsecond
	u := unit{}
	hears := func(why string, next unit, want string) {
		t.Helper()
		require.Equal(t, want, next.since(u, at), why)
		u = next
	}
	node := lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Starting, Activity: supervisor.Reaching, Reason: "two\nlines"}}
	node.Announces = true
	hears("it waits", u.follow(node), "STATUS=Starting, reaching what the daemon needs, two; lines")
	hears("nothing new", u.follow(node), "")
	hears("a reload before the start is over", u.hungUp(node), "")
	node.Phase, node.Activity, node.Reason, node.Main = supervisor.Ready, supervisor.Idle, "", 7
	hears("the node is registered", u.follow(node), "STATUS=Ready\nREADY=1")

	hears("systemctl reload", u.hungUp(node), "RELOADING=1\nMONOTONIC_USEC=42")
	hears("it is still the same slurmd", u.follow(node), "")
	node.Phase, node.Main = supervisor.Reloading, 8
	hears("its successor", u.follow(node), "STATUS=Reloading")
	node.Phase = supervisor.Ready
	hears("it is confirmed", u.follow(node), "STATUS=Ready\nREADY=1")

	node.Phase = supervisor.Reloading
	hears("slurmctld has it reload", u.follow(node), "STATUS=Reloading\nRELOADING=1\nMONOTONIC_USEC=42")
	node.Phase = supervisor.Ready
	hears("and again", u.follow(node), "STATUS=Ready\nREADY=1")

	u = u.hungUp(node)
	hears("another slurmd's time is over", u.gaveUp(7).follow(node), "")
	hears("slurmd did not take it", u.gaveUp(8).follow(node), "READY=1")

	node.Phase, node.Main = supervisor.Starting, 0
	hears("slurmd died", u.follow(node), "STATUS=Starting")
	node.Phase, node.Main = supervisor.Ready, 9
	hears("it is back", u.follow(node), "STATUS=Ready")

	node.Phase, node.Activity = supervisor.Stopping, supervisor.Finishing
	hears("systemctl stop", u.follow(node), "STATUS=Stopping, "+supervisor.Finishing.String()+"\nSTOPPING=1")
	hears("too late", u.hungUp(node), "")

	rest := lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Ready, Main: 5}}
	u = u.follow(rest)
	hears("slurmrestd's reload", u.hungUp(rest), "RELOADING=1\nMONOTONIC_USEC=42")
	hears("is over at once", u.follow(rest), "READY=1")
}
