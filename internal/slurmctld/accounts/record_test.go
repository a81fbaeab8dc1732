package accounts

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHold: an Apply waits for a reconfigure, and a reconfigure for an Apply, each for so long and no longer.
func TestHold(t *testing.T) {
	record := filepath.Join(t.TempDir(), "slurmlet", RecordName)
	release, err := Hold(t.Context(), record)
	require.NoError(t, err)

	_, err = lock(t.Context(), record, 2*lockPause)
	require.ErrorContains(t, err, "slurmctld is being reconfigured")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = lock(ended, record, time.Hour)
	require.Error(t, err, "nobody waits for it any more")

	applied := make(chan error, 1)
	go func() {
		unlock, err := lock(t.Context(), record, time.Minute)
		if err == nil {
			unlock()
		}
		applied <- err
	}()
	require.Never(t, func() bool { return len(applied) > 0 }, 4*lockPause, lockPause)
	release()
	require.NoError(t, <-applied)
	release, err = Hold(t.Context(), record)
	require.NoError(t, err, "the lock is free again")
	release()
}
