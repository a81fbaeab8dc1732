package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/process"
)

// TestBegan: a process that is heard of late has begun early nevertheless.
func TestBegan(t *testing.T) {
	before := time.Now()
	p, err := process.NewTable().Start(process.Command{Path: "/bin/sleep", Args: []string{"0.1"}})
	require.NoError(t, err)
	after := time.Now()

	at := began("/", p)
	require.True(t, at.Before(after), "%v, started before %v", at, after)
	require.True(t, at.After(before.Add(-userTick-clockLag-time.Second)), "%v, started after %v", at, before)

	<-p.Done()
	require.Equal(t, p.Started().Add(-clockLag), began("/", p), "nothing is known of a process that is gone")
}
