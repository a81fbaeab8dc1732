package systemd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUnit: what systemd hears of a life.
func TestUnit(t *testing.T) {
	const at = 42 * time.Microsecond
	u := state{}
	hears := func(why string, next state, want string) {
		t.Helper()
		require.Equal(t, want, next.since(u, at), why)
		u = next
	}
	node := Life{Text: "Starting, reaching what the daemon needs, two\nlines", Announces: true}
	hears("it waits", u.follow(node), "STATUS=Starting, reaching what the daemon needs, two; lines")
	hears("nothing new", u.follow(node), "")
	hears("a reload before the start is over", u.hungUp(node), "")
	node.Text, node.Serving, node.Main = "Ready", true, 7
	hears("the node is registered", u.follow(node), "STATUS=Ready\nREADY=1")

	hears("systemctl reload", u.hungUp(node), "RELOADING=1\nMONOTONIC_USEC=42")
	hears("it is still the same slurmd", u.follow(node), "")
	node.Text, node.Reloading, node.Main = "Reloading", true, 8
	hears("its successor", u.follow(node), "STATUS=Reloading")
	node.Text, node.Reloading = "Ready", false
	hears("it is confirmed", u.follow(node), "STATUS=Ready\nREADY=1")

	node.Text, node.Reloading = "Reloading", true
	hears("slurmctld has it reload", u.follow(node), "STATUS=Reloading\nRELOADING=1\nMONOTONIC_USEC=42")
	node.Text, node.Reloading = "Ready", false
	hears("and again", u.follow(node), "STATUS=Ready\nREADY=1")

	u = u.hungUp(node)
	hears("another slurmd's time is over", u.gaveUp(7).follow(node), "")
	hears("slurmd did not take it", u.gaveUp(8).follow(node), "READY=1")

	node.Text, node.Serving, node.Main = "Starting", false, 0
	hears("slurmd died", u.follow(node), "STATUS=Starting")
	node.Text, node.Serving, node.Main = "Ready", true, 9
	hears("it is back", u.follow(node), "STATUS=Ready")

	node.Text, node.Serving, node.Over = "Stopping, waiting for jobs", false, true
	hears("systemctl stop", u.follow(node), "STATUS=Stopping, waiting for jobs\nSTOPPING=1")
	hears("too late", u.hungUp(node), "")

	rest := Life{Text: "Ready", Serving: true, Main: 5}
	u = u.follow(rest)
	hears("slurmrestd's reload", u.hungUp(rest), "RELOADING=1\nMONOTONIC_USEC=42")
	hears("is over at once", u.follow(rest), "READY=1")
}
