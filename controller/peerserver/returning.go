package peerserver

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// SetsChanged has what Returning says of some clusters told to slurmctld's agents, where that is new. No names are all.
func (s *Server) SetsChanged(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(s.clusters))
	}
	for _, name := range names {
		if c := s.clusters[name]; c != nil {
			c.wakeSlurmctlds()
		}
	}
}

func (c *cluster) wakeSlurmctlds() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.readers {
		if r.Role == role.Slurmctld {
			r.wake()
		}
	}
}

// returningFor is the line that a reader has not had; nil for none. A reader comes here after pending.
func (s *Server) returningFor(r *reader) []byte {
	if r.Role != role.Slurmctld || s.Returning == nil {
		return nil
	}
	returning := s.Returning(r.Cluster)
	if returning == nil {
		return nil
	}
	line, err := json.Marshal(wire.Update{Returning: returning})
	if line = append(line, '\n'); err != nil || slices.Equal(line, r.returning) {
		return nil
	}
	r.returning = line
	return line
}
