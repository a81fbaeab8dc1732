package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQueue: an event is written once, the latest of its key, and one with an end after the others.
func TestQueue(t *testing.T) {
	q := NewQueue[string]()
	_, there := q.Next()
	require.False(t, there)
	q.PutUntil("over", Event{Reason: "Injected"}, time.Now().Add(-time.Second))
	q.PutUntil("later", Event{Reason: "Injected"}, time.Now().Add(time.Hour))
	q.Put("a", Event{Reason: "NoRole"})
	require.Len(t, q.changed, 1)
	first, there := q.Next()
	require.True(t, there)
	require.Equal(t, Waiting[string]{"a", Event{Reason: "NoRole"}}, first)

	q.Put("a", Event{Reason: "BadName"})
	q.Done(first)
	second, there := q.Next()
	require.True(t, there, "another one came for the key")
	require.Equal(t, "BadName", second.Reason)
	q.Done(second)

	third, there := q.Next()
	require.True(t, there)
	require.Equal(t, "later", third.Key)
	q.Drop("later")
	_, there = q.Next()
	require.False(t, there)
	require.Empty(t, q.passing)
}
