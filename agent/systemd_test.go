package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	node := life{state: Starting, doing: reaching, reason: "two\nlines"}
	node.announces = true
	hears("it waits", u.follow(node), "STATUS=Starting, reaching what the daemon needs, two; lines")
	hears("nothing new", u.follow(node), "")
	hears("a reload before the start is over", u.hungUp(node), "")
	node.state, node.doing, node.reason, node.main = Ready, nothing, "", 7
	hears("the node is registered", u.follow(node), "STATUS=Ready\nREADY=1")

	hears("systemctl reload", u.hungUp(node), "RELOADING=1\nMONOTONIC_USEC=42")
	hears("it is still the same slurmd", u.follow(node), "")
	node.state, node.main = Reloading, 8
	hears("its successor", u.follow(node), "STATUS=Reloading")
	node.state = Ready
	hears("it is confirmed", u.follow(node), "STATUS=Ready\nREADY=1")

	node.state = Reloading
	hears("slurmctld has it reload", u.follow(node), "STATUS=Reloading\nRELOADING=1\nMONOTONIC_USEC=42")
	node.state = Ready
	hears("and again", u.follow(node), "STATUS=Ready\nREADY=1")

	u = u.hungUp(node)
	hears("another slurmd's time is over", u.gaveUp(7).follow(node), "")
	hears("slurmd did not take it", u.gaveUp(8).follow(node), "READY=1")

	node.state, node.main = Starting, 0
	hears("slurmd died", u.follow(node), "STATUS=Starting")
	node.state, node.main = Ready, 9
	hears("it is back", u.follow(node), "STATUS=Ready")

	node.state, node.doing = Stopping, finishing
	hears("systemctl stop", u.follow(node), "STATUS=Stopping, "+string(finishing)+"\nSTOPPING=1")
	hears("too late", u.hungUp(node), "")

	rest := life{state: Ready, main: 5}
	u = u.follow(rest)
	hears("slurmrestd's reload", u.hungUp(rest), "RELOADING=1\nMONOTONIC_USEC=42")
	hears("is over at once", u.follow(rest), "READY=1")
}
