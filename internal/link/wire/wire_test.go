package wire

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWire holds each type to its JSON: agents and controllers of different versions speak together.
func TestWire(t *testing.T) {
	deadline := time.Date(2026, 11, 23, 3, 30, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		value any
		json  string
	}{
		"heartbeat": {Update{}, `{}`},
		"snapshot of an empty table": {
			Update{Epoch: "e1", Revision: 7, Snapshot: true},
			`{"epoch":"e1","revision":7,"snapshot":true}`,
		},
		"delta": {
			Update{
				Epoch: "e1", Revision: 8,
				Peers: []Peer{{
					Name: "node-0", Role: "slurmd", NodeSet: "cpu", UID: "u1", Machine: "m1", Ending: true,
					Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
				}},
				Gone: []Gone{{Name: "node-1", UID: "u2", Lost: true}},
			},
			`{"epoch":"e1","revision":8,` +
				`"peers":[{"name":"node-0","role":"slurmd","nodeSet":"cpu","uid":"u1",` +
				`"addresses":["10.0.0.1","fd00::1"],"machine":"m1","ending":true}],` +
				`"gone":[{"name":"node-1","uid":"u2","lost":true}]}`,
		},
		"peer without an address": {
			Peer{Name: "node-0", Role: "slurmd", UID: "u1"},
			`{"name":"node-0","role":"slurmd","uid":"u1"}`,
		},
		"self": {
			Update{Self: &Self{
				Machine: "m1", Labels: map[string]string{"topology.kubernetes.io/zone": "a"},
				Features: []string{"zone-a"}, Topology: "tree:rack1", Weight: "10", Drain: "cordoned", Deadline: deadline, GraceSeconds: 30,
			}},
			`{"self":{"machine":"m1","labels":{"topology.kubernetes.io/zone":"a"},"features":["zone-a"],` +
				`"topology":"tree:rack1","weight":"10","drain":"cordoned","deadline":"2026-11-23T03:30:00Z","graceSeconds":30}}`,
		},
		"self without a deadline": {Self{}, `{}`},
		"report": {
			Report{Whole: true, Nodes: []NodeReport{
				{Name: "node-0", State: Idle},
				{Name: "node-1", State: Busy, Drain: "cordoned"},
				{Name: "node-2", State: Absent},
			}},
			`{"whole":true,"nodes":[{"name":"node-0","state":"idle"},` +
				`{"name":"node-1","state":"busy","drain":"cordoned"},{"name":"node-2","state":"absent"}]}`,
		},
		"report without news": {Report{Conf: "d"}, `{"conf":"d"}`},
		"report of elastic nodes": {
			Report{Nodes: []NodeReport{{Name: "c-1", State: Absent, Elastic: "gpu", Wanted: true}, {Name: "c-2", State: Absent, Elastic: "gpu"}}},
			`{"nodes":[{"name":"c-1","state":"absent","elastic":"gpu","wanted":true},{"name":"c-2","state":"absent","elastic":"gpu"}]}`,
		},
		"answer": {
			Answer{Failing: Failing{Pods: []Failure{{Nodes: "c-[1-2]", Reason: "Unschedulable", Note: "0/3 nodes are available", Since: deadline}}}, Soon: true},
			`{"failing":{"pods":[{"nodes":"c-[1-2]","reason":"Unschedulable","note":"0/3 nodes are available","since":"2026-11-23T03:30:00Z"}]},"soon":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			written, err := json.Marshal(tt.value)
			require.NoError(t, err)
			assert.Equal(t, tt.json, string(written))
		})
	}
}

// TestHeartbeat: a field that is new in a line makes it news, but for those that say how the line is to be read.
func TestHeartbeat(t *testing.T) {
	about := []string{"Revision", "Snapshot", "Gzip", "Stale"}
	for i := range reflect.TypeFor[Update]().NumField() {
		var u Update
		name, field := reflect.TypeFor[Update]().Field(i).Name, reflect.ValueOf(&u).Elem().Field(i)
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int:
			field.SetInt(1)
		case reflect.Uint64:
			field.SetUint(1)
		case reflect.String:
			field.SetString("e1")
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		}
		assert.Equal(t, slices.Contains(about, name), u.IsHeartbeat(), name)
	}
}
