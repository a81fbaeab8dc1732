package door

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSet: whoever has the most loses the oldest, and of several who have as many the one whose is the oldest.
func TestSet(t *testing.T) {
	s := NewSet[string, int]()
	require.Nil(t, s.Oldest())
	require.Nil(t, s.OldestOfMost())
	require.Nil(t, s.OldestOf("a"))
	places := []*Place[string, int]{}
	for i, key := range []string{"a", "b", "c", "b", "c"} {
		places = append(places, s.Add(key, i))
	}
	require.Equal(t, 5, s.Len())
	require.Equal(t, 3, s.CountOwners())
	require.Equal(t, 2, s.LenOf("b"))
	require.Equal(t, 0, s.Oldest().Conn)
	require.Equal(t, 1, s.OldestOfMost().Conn, "b and c have two, and b's is older")
	require.Equal(t, 2, s.OldestOf("c").Conn)
	require.Equal(t, []int{0, 1, 2, 3, 4}, slices.Collect(s.All()))
	require.Equal(t, []int{1, 3}, slices.Collect(s.AllOf("b")))
	places[1].Leave()
	places[1].Leave()
	require.Equal(t, 2, s.OldestOfMost().Conn)
	require.Equal(t, []string{"a", "b", "c"}, slices.Sorted(s.Keys()))

	other := NewSet[string, int]()
	places[0].Move(other, "named")
	require.False(t, s.Has("a"))
	require.Equal(t, "named", places[0].Key())
	places[0].Move(s, "c")
	require.Equal(t, 0, s.OldestOfMost().Conn, "it is as old as it was")
	require.Zero(t, other.Len())
	for conn := range s.All() {
		places[conn].Leave()
	}
	require.Zero(t, s.Len())
	require.Zero(t, s.CountOwners())
}

// FuzzSet: whatever comes, moves and leaves, a Set says what a look at all connections says.
func FuzzSet(f *testing.F) {
	f.Add([]byte{0, 1, 1, 2, 2, 128, 64, 129, 3, 200})
	f.Fuzz(func(t *testing.T, steps []byte) {
		type conn struct {
			key   byte
			place *Place[byte, int]
		}
		s := NewSet[byte, int]()
		var all []*conn // those that are there, the oldest first
		for number, step := range steps {
			key := step % 8
			switch {
			case step < 128 || len(all) == 0:
				all = append(all, &conn{key, s.Add(key, number)})
			case step < 192:
				c := all[int(step)%len(all)]
				c.key = key
				c.place.Move(s, key)
			default:
				i := int(step) % len(all)
				all[i].place.Leave()
				all = slices.Delete(all, i, i+1)
			}
			count := map[byte]int{}
			for _, c := range all {
				count[c.key]++
			}
			var most *conn
			for _, c := range all {
				if most == nil || count[c.key] > count[most.key] {
					most = c
				}
			}
			require.Equal(t, len(all), s.Len())
			require.Equal(t, len(count), s.CountOwners())
			if most == nil {
				require.Nil(t, s.OldestOfMost())
				continue
			}
			require.Same(t, most.place, s.OldestOfMost())
			require.Same(t, all[0].place, s.Oldest())
			for key, n := range count {
				require.Equal(t, n, s.LenOf(key))
				first := all[slices.IndexFunc(all, func(c *conn) bool { return c.key == key })]
				require.Same(t, first.place, s.OldestOf(key))
			}
		}
	})
}
