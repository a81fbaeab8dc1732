package sack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func few() *shares {
	return newShares(limits{silent: 2, all: 4, places: 1, common: 2, most: 6}, 0)
}

// TestAdmit: the connection that ends for another is its own user's, or that of the user with the most.
func TestAdmit(t *testing.T) {
	s := few()
	alice := []*visitor{{uid: 1}, {uid: 1}, {uid: 1}}
	require.Nil(t, s.admit(alice[0]))
	require.Nil(t, s.admit(alice[1]))
	require.Same(t, alice[0], s.admit(alice[2]), "the oldest")
	s.leave(alice[0])
	s.asked(alice[1])
	s.asked(alice[2])
	more := []*visitor{{uid: 1}, {uid: 1}, {uid: 1}}
	require.Nil(t, s.admit(more[0]))
	require.Nil(t, s.admit(more[1]))
	require.Same(t, more[2], s.admit(more[2]), "she has as many as anybody may")
	s.leave(more[2])
	require.Nil(t, s.admit(&visitor{uid: 2}))
	require.Nil(t, s.admit(&visitor{uid: 3}))
	require.Same(t, more[0], s.admit(&visitor{uid: 4}), "there are too many, and most of those that say nothing are hers")
	require.Equal(t, Status{Connections: 7, Ended: 3, Crowding: []Holder{{UID: 1, Connections: 4, Ended: 3}}}, s.status())
}

// TestForget: a user is told of for a minute, and costs nothing afterwards.
func TestForget(t *testing.T) {
	s := few()
	now := time.Now()
	s.now = func() time.Time { return now }
	v := &visitor{uid: 1}
	s.admit(v)
	s.late(v)
	s.late(v)
	s.leave(v)
	require.Equal(t, Status{Ended: 1, Crowding: []Holder{{UID: 1, Ended: 1}}}, s.status())
	now = now.Add(remembered)
	require.Equal(t, Status{Ended: 1}, s.status())
	require.Empty(t, s.holders)
	s.admit(v)
	s.asked(v)
	s.leave(v)
	require.Empty(t, s.holders)
}

// TestPlaces: a user waits for the others' places only where these are many, and root for nobody's.
func TestPlaces(t *testing.T) {
	s := few()
	over := make(chan struct{})
	close(over)
	enter := func(uid uint32) func() {
		v := &visitor{uid: uid}
		s.admit(v)
		for range 64 { // select chooses by chance
			if leave := s.place(v, over); leave != nil {
				return leave
			}
		}
		return nil
	}
	alice := enter(1)
	require.NotNil(t, alice)
	require.Nil(t, enter(1), "she has her place already")
	require.NotNil(t, enter(2))
	require.Nil(t, enter(3), "all places are taken")
	require.NotNil(t, enter(0))
	alice()
	require.NotNil(t, enter(3))
}
