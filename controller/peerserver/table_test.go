package peerserver

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func pod(name, uid, addr string, age int) Claim {
	c := Claim{Peer: wire.Peer{Name: name, UID: uid, Role: "slurmd"}, Created: time.Unix(int64(1000-age), 0)}
	if addr != "" {
		c.Addresses = addrs(addr)
	}
	return c
}

func update(t *testing.T, line []byte) (u wire.Update) {
	t.Helper()
	if line != nil {
		require.NoError(t, json.Unmarshal(line, &u), string(line))
	}
	return u
}

// TestTable plays stories of pods, and tells what readers hear after each step.
func TestTable(t *testing.T) {
	a, older, younger := pod("n0", "u1", "10.0.0.1", 0), pod("n0", "u0", "10.0.0.2", 5), pod("n0", "u2", "10.0.0.3", -5)
	waiting := pod("n0", "u0", "", 5)
	type step struct {
		put      *Claim
		gone     string
		lost     bool
		conflict *Conflict
		told     wire.Update // without epoch and revision
	}
	for name, steps := range map[string][]step{
		"a pod comes, changes and goes": {
			{put: &a, told: wire.Update{Peers: []wire.Peer{a.Peer}}},
			{put: &a},
			{put: &Claim{Peer: wire.Peer{Name: "n0", UID: "u1", Role: "slurmd", Ending: true}, Created: a.Created}, told: wire.Update{Peers: []wire.Peer{{Name: "n0", UID: "u1", Role: "slurmd", Ending: true}}}},
			{gone: "u1", lost: true, told: wire.Update{Gone: []wire.Gone{{Name: "n0", UID: "u1", Lost: true}}}},
			{gone: "u1"},
		},
		"the older one stays": {
			{put: &a, told: wire.Update{Peers: []wire.Peer{a.Peer}}},
			{put: &younger, conflict: &Conflict{"n0", "u1", "u2"}},
			{gone: "u2"},
			{put: &younger, conflict: &Conflict{"n0", "u1", "u2"}},
			{gone: "u1", told: wire.Update{Gone: []wire.Gone{{Name: "n0", UID: "u1"}}, Peers: []wire.Peer{younger.Peer}}},
		},
		"the controller hears of the older one later": {
			{put: &a, told: wire.Update{Peers: []wire.Peer{a.Peer}}},
			{put: &older, conflict: &Conflict{"n0", "u0", "u1"}, told: wire.Update{Peers: []wire.Peer{older.Peer}}},
		},
		"an older one that does not live has no claim": {
			{put: &waiting, told: wire.Update{Peers: []wire.Peer{waiting.Peer}}},
			{put: &a, conflict: &Conflict{"n0", "u1", "u0"}, told: wire.Update{Peers: []wire.Peer{a.Peer}}},
		},
		"a pod changes its name": {
			{put: &a, told: wire.Update{Peers: []wire.Peer{a.Peer}}},
			{put: &Claim{Peer: wire.Peer{Name: "n1", UID: "u1", Role: "slurmd"}}, told: wire.Update{Gone: []wire.Gone{{Name: "n0", UID: "u1"}}, Peers: []wire.Peer{{Name: "n1", UID: "u1", Role: "slurmd"}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable("e")
			for i, s := range steps {
				if s.put != nil {
					conflict, err := table.Put(*s.put)
					require.NoError(t, err)
					require.Equal(t, s.conflict, conflict, "step %d", i)
				} else {
					table.Delete(s.gone, s.lost)
				}
				before := table.revision
				u := update(t, table.Delta())
				if len(u.Peers)+len(u.Gone) > 0 {
					require.Equal(t, "e", u.Epoch)
					require.Equal(t, before, u.Revision)
				}
				u.Epoch, u.Revision = "", 0
				require.Equal(t, s.told, u, "step %d", i)
			}
		})
	}
}

func TestTableSnapshot(t *testing.T) {
	table := NewTable("e")
	assert.Equal(t, wire.Update{Epoch: "e", Snapshot: true}, update(t, table.Snapshot()))
	b, a := pod("b", "u2", "fd00::1", 0), pod("a", "u1", "10.0.0.1", 0)
	for _, c := range []Claim{b, a, pod("a", "u3", "10.0.0.9", -1)} {
		_, err := table.Put(c)
		require.NoError(t, err)
	}
	assert.Equal(t, wire.Update{Epoch: "e", Revision: 2, Snapshot: true, Peers: []wire.Peer{a.Peer, b.Peer}}, update(t, table.Snapshot()))
	assert.Equal(t, []Conflict{{"a", "u1", "u3"}}, table.Conflicts())
	assert.Equal(t, 2, table.Len())
}

func TestTableRefuses(t *testing.T) {
	for name, c := range map[string]Claim{
		"no name":            pod("", "u", "", 0),
		"a list":             pod("n[0-9]", "u", "", 0),
		"two words":          pod("n0 localhost", "u", "", 0),
		"a line":             pod("n0\n1.1.1.1 evil", "u", "", 0),
		"localhost":          pod("localhost", "u", "", 0),
		"an address":         pod("10.0.0.1", "u", "", 0),
		"a long name":        pod("n23456789012345678901234567890123456789012345678901234567890123456789", "u", "", 0),
		"no UID":             pod("n0", "", "", 0),
		"an address of none": pod("n0", "u", "0.0.0.0", 0),
		"a zone":             pod("n0", "u", "fe80::1%eth0", 0),
		"too many addresses": {Peer: wire.Peer{Name: "n0", UID: "u", Addresses: addrs("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9")}},
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable("e")
			_, err := table.Put(c)
			require.Error(t, err)
			assert.Nil(t, table.Delta())
		})
	}
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}
