package podnames

import (
	"net/netip"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestMissing: a name that only another replica's whole table lacks stays for a while, and slurmctld is where
// the controller has it now.
func TestMissing(t *testing.T) {
	path := hostsFile(t)
	m := open(t, path, "ctl.invalid:6817")
	peer := func(name, is, address string) wire.Peer {
		return wire.Peer{Name: name, UID: name, Role: role.Role(is), Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	hosts := func(want ...string) {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		have := []string{}
		for _, line := range regexp.MustCompile(`(?m)^10\S+\s+\S+`).FindAllString(string(text), -1) {
			have = append(have, regexp.MustCompile(`\s+`).ReplaceAllString(line, " "))
		}
		assert.ElementsMatch(t, want, have)
	}
	gone := func(names ...string) (all []wire.Gone) {
		for _, name := range names {
			all = append(all, wire.Gone{Name: name, UID: name})
		}
		return all
	}
	m.changed(peers.Change{Whole: true, Put: []wire.Peer{peer("ctl-0", "slurmctld", "10.0.0.1"), peer("n1", "slurmd", "10.0.1.1"), peer("n2", "slurmd", "10.0.1.2"), peer("n3", "slurmd", "10.0.1.3")}})
	all := []string{"10.0.0.1 ctl-0", "10.0.0.1 ctl.invalid", "10.0.1.1 n1", "10.0.1.2 n2", "10.0.1.3 n3"}
	hosts(all...)

	m.changed(peers.Change{Whole: true, Gone: append(gone("ctl-0", "n1", "n2"), wire.Gone{Name: "n3", UID: "n3", Lost: true})})
	hosts(all[:4]...)
	m.changed(peers.Change{Put: []wire.Peer{peer("n1", "slurmd", "10.0.1.9"), peer("ctl-1", "slurmctld", "10.0.0.2")}})
	now := []string{"10.0.0.1 ctl-0", "10.0.0.2 ctl-1", "10.0.0.2 ctl.invalid", "10.0.1.2 n2", "10.0.1.9 n1"}
	hosts(now...)
	m.dropMissing(time.Now())
	hosts(now...)
	m.dropMissing(time.Now().Add(missingTime))
	hosts("10.0.0.2 ctl-1", "10.0.0.2 ctl.invalid", "10.0.1.9 n1")

	m.changed(peers.Change{Gone: gone("n1")})
	hosts("10.0.0.2 ctl-1", "10.0.0.2 ctl.invalid")
}
