package peerserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Claim is a pod that claims a name in its cluster.
type Claim struct {
	wire.Peer
	// Created is when Kubernetes made the pod. The older of two pods has the name.
	Created time.Time
}

// Conflict says that two pods claim one name, and which of them has it.
type Conflict struct {
	Name string
	// Holder and Refused are the pods' UIDs.
	Holder, Refused string
}

// Table is a cluster's peers. It counts its states, and tells what has changed between two of
// them. It is not safe for concurrent use.
type Table struct {
	epoch    string
	revision uint64
	// names has all claims of a name, the holder first.
	names map[string][]*entry
	pods  map[string]*entry // by UID
	// changed and gone are what the next Delta tells.
	changed map[string]bool
	gone    []wire.Gone
	// lost are peers whose machines have gone lately, by UID.
	lost map[string]lost
	now  func() time.Time
}

// lost is a peer whose machine is gone.
type lost struct {
	name string
	at   time.Time
}

const (
	// lostTime is how long a lost peer is told of to agents whose streams were away, and mostLost
	// bounds them.
	lostTime = time.Hour
	mostLost = 10_000
)

// entry is a claim, and its peer as JSON.
type entry struct {
	Claim
	text []byte
}

// NewTable makes an empty table. epoch is the id of this process.
func NewTable(epoch string) *Table {
	return &Table{
		epoch: epoch, names: map[string][]*entry{}, pods: map[string]*entry{}, changed: map[string]bool{}, lost: map[string]lost{}, now: time.Now,
	}
}

// Put adds a pod, or changes it. It tells whether another pod claims the same name.
func (t *Table) Put(c Claim) (*Conflict, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(c.Peer)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the peer %s: %w", c.Name, err)
	}
	if old := t.pods[c.UID]; old != nil {
		if bytes.Equal(old.text, text) && old.Created.Equal(c.Created) {
			return t.conflict(old), nil
		}
		if old.Name != c.Name {
			t.Delete(c.UID, false)
		}
	}
	before := t.holder(c.Name)
	t.remove(c.UID)
	delete(t.lost, c.UID) // its machine is back
	e := &entry{Claim: c, text: text}
	t.pods[c.UID] = e
	claims := t.names[c.Name]
	i, _ := slices.BinarySearchFunc(claims, e, older)
	t.names[c.Name] = slices.Insert(claims, i, e)
	t.note(c.Name, before)
	return t.conflict(e), nil
}

// Delete takes a pod out. isLost says that its machine is gone. successor is the UID of the pod that has the name
// now and did not have it before; empty if there is none.
func (t *Table) Delete(uid string, isLost bool) (successor string) {
	e := t.pods[uid]
	if e == nil {
		return ""
	}
	before := t.holder(e.Name)
	t.remove(uid)
	if before == e {
		t.gone = append(t.gone, wire.Gone{Name: e.Name, UID: uid, Lost: isLost})
		t.revision++
		if isLost {
			t.lose(e)
		}
		if now := t.holder(e.Name); now != nil {
			successor = now.UID
		}
	}
	t.note(e.Name, before)
	return successor
}

// lose keeps a lost peer for snapshots.
func (t *Table) lose(e *entry) {
	now := t.now()
	if len(t.lost) >= mostLost {
		maps.DeleteFunc(t.lost, func(_ string, l lost) bool { return now.Sub(l.at) > lostTime })
	}
	if len(t.lost) < mostLost {
		t.lost[e.UID] = lost{e.Name, now}
	}
}

// remove takes a pod out, and tells nobody.
func (t *Table) remove(uid string) {
	e := t.pods[uid]
	if e == nil {
		return
	}
	delete(t.pods, uid)
	claims := t.names[e.Name]
	if len(claims) == 1 {
		delete(t.names, e.Name)
		return
	}
	i, _ := slices.BinarySearchFunc(claims, e, older) // UIDs make the order total
	t.names[e.Name] = slices.Delete(claims, i, i+1)
}

// older orders the claims of a name: a pod that has an address comes before one that has none, one that
// stays before one that ends, and then the older one comes first. All replicas of the controller come to the same order.
func older(a, b *entry) int {
	if live := len(a.Addresses) > 0; live != (len(b.Addresses) > 0) {
		if live {
			return -1
		}
		return 1
	}
	if a.Ending != b.Ending {
		if b.Ending {
			return -1
		}
		return 1
	}
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return strings.Compare(a.UID, b.UID)
}

func (t *Table) holder(name string) *entry {
	if claims := t.names[name]; len(claims) > 0 {
		return claims[0]
	}
	return nil
}

// note counts a change of the peer that has the name, if it is one.
func (t *Table) note(name string, before *entry) {
	now := t.holder(name)
	switch {
	case now == nil:
		delete(t.changed, name)
	case before == nil || now != before && !bytes.Equal(now.text, before.text):
		t.changed[name] = true
		t.revision++
	}
}

// conflict is the one that a pod is part of.
func (t *Table) conflict(e *entry) *Conflict {
	claims := t.names[e.Name]
	if len(claims) < 2 {
		return nil
	}
	refused := e
	if claims[0] == e {
		refused = claims[1]
	}
	return &Conflict{Name: e.Name, Holder: claims[0].UID, Refused: refused.UID}
}

// Conflicts are the pods that do not have the names that they claim.
func (t *Table) Conflicts() []Conflict {
	var all []Conflict
	for _, name := range slices.Sorted(maps.Keys(t.names)) {
		for i, e := range t.names[name] {
			if i > 0 {
				all = append(all, Conflict{Name: name, Holder: t.names[name][0].UID, Refused: e.UID})
			}
		}
	}
	return all
}

// Len is how many peers there are.
func (t *Table) Len() int { return len(t.names) }

// Snapshot is the whole table as a line of the stream.
func (t *Table) Snapshot() []byte {
	line := t.begin(true)
	line = t.appendPeers(line, slices.Sorted(maps.Keys(t.names)))
	now := t.now()
	var gone []wire.Gone
	for uid, l := range t.lost {
		if now.Sub(l.at) <= lostTime {
			gone = append(gone, wire.Gone{Name: l.name, UID: uid, Lost: true})
		}
	}
	slices.SortFunc(gone, func(a, b wire.Gone) int { return strings.Compare(a.UID, b.UID) })
	return append(appendGone(line, gone), "}\n"...)
}

// Delta is what has changed since the last call, as a line of the stream. It is nil if nothing has.
// A reader takes Gone before Peers.
func (t *Table) Delta() []byte {
	if len(t.changed) == 0 && len(t.gone) == 0 {
		return nil
	}
	line := t.begin(false)
	line = t.appendPeers(line, slices.Sorted(maps.Keys(t.changed)))
	line = appendGone(line, t.gone)
	clear(t.changed)
	t.gone = nil
	return append(line, "}\n"...)
}

func appendGone(line []byte, gone []wire.Gone) []byte {
	if len(gone) == 0 {
		return line
	}
	text, _ := json.Marshal(gone) // strings and booleans
	return append(append(line, `,"gone":`...), text...)
}

func (t *Table) begin(snapshot bool) []byte {
	head, _ := json.Marshal(wire.Update{Epoch: t.epoch, Revision: t.revision, Snapshot: snapshot}) // a string and a number
	return head[:len(head)-1]
}

// appendPeers appends the peers of some names, which were encoded when they changed.
func (t *Table) appendPeers(line []byte, names []string) []byte {
	if len(names) == 0 {
		return line
	}
	size := len(line) + 16
	for _, name := range names {
		size += len(t.names[name][0].text) + 1
	}
	line = append(slices.Grow(line, size-len(line)), `,"peers":[`...)
	for i, name := range names {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, t.names[name][0].text...)
	}
	return append(line, ']')
}
