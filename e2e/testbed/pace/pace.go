// Package pace says how often a test that waits looks whether what it waits for has come. Most looks run one of Slurm's
// commands, and dozens of tests wait beside each other: such commands were a quarter of what the native clusters
// computed.
package pace

import "time"

const (
	// least and most bound the pause between two looks: what is looked for may last no longer.
	least, most = 50 * time.Millisecond, time.Second
	// late is the part of its time that a wait may end too late, and share the part of the time that looks may take.
	late, share = 8, 4
)

// Pause is the time from now until the next look of a wait that began then, and whose last look began at looked.
func Pause(began, looked time.Time) time.Duration {
	now := time.Now()
	return min(max(least, now.Sub(began)/late, (share-1)*now.Sub(looked)), most)
}
