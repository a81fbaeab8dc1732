// Package reconfig brings slurmctld's configuration from an edit of its sources to live:
// it reads the sources, checks what they hold, puts it in place, has slurmctld and the nodes
// read it, and keeps the last good set for the next container. It decides nothing: each
// step is an action of internal/lifecycle, and what came of it is an event.
package reconfig
