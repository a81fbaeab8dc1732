package peerserver

import "sync/atomic"

// Stats are a Server's figures. Those without "Total" are the present ones.
type Stats struct {
	Clusters, Peers, Conflicts int
	// Streams are agents that read, Strangers connections that have shown no token yet.
	Streams, Strangers int
	// StreamsTotal are streams that began. SlowTotal are those that the server ended because
	// their agents did not read in time.
	StreamsTotal, SlowTotal uint64
	// SnapshotsTotal, DeltasTotal and HeartbeatsTotal are lines that were written, BytesTotal their bytes.
	SnapshotsTotal, DeltasTotal, HeartbeatsTotal, BytesTotal uint64
	// DeniedTotal are requests without a token that gives a right. UnknownTotal are those that could
	// not be judged.
	DeniedTotal, UnknownTotal uint64
	// EvictedTotal are connections of strangers that were ended for want of room.
	EvictedTotal uint64
	// ReportsTotal are those that were taken. CrowdedTotal were ended before they had come whole, for a later one of
	// their pods or for want of room.
	ReportsTotal, CrowdedTotal uint64
	// NotTakenTotal are reports that had a fault or were too much, by the reasons of NotTaken.
	NotTakenTotal map[string]uint64
}

type counters struct {
	streams, slow, snapshots, deltas, heartbeats, bytes, denied, unknown, evicted, reports, crowded atomic.Uint64

	notTaken [4]atomic.Uint64 // by reasons
}

// Stats are the present figures.
func (s *Server) Stats() Stats {
	n := &s.count
	t := Stats{
		StreamsTotal: n.streams.Load(), SlowTotal: n.slow.Load(), SnapshotsTotal: n.snapshots.Load(), DeltasTotal: n.deltas.Load(),
		HeartbeatsTotal: n.heartbeats.Load(), BytesTotal: n.bytes.Load(), DeniedTotal: n.denied.Load(), UnknownTotal: n.unknown.Load(),
		EvictedTotal: n.evicted.Load(), ReportsTotal: n.reports.Load(), CrowdedTotal: n.crowded.Load(),
		NotTakenTotal: map[string]uint64{},
	}
	for i, reason := range reasons {
		t.NotTakenTotal[reason] = n.notTaken[i].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Clusters = len(s.clusters)
	for g := range s.guards {
		t.Strangers += g.len()
	}
	for _, c := range s.clusters {
		c.mu.Lock()
		t.Peers += c.table.Len()
		t.Conflicts += len(c.table.pods) - c.table.Len()
		t.Streams += len(c.readers)
		c.mu.Unlock()
	}
	return t
}
