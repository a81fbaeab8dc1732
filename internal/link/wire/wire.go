// Package wire has what crosses between the controller and the agents of a cluster: the table of the cluster's pods,
// which the controller streams, and the reports of slurmctld's agent. internal/link/peers is the agent's end, and
// controller/peerserver the controller's.
//
// An agent opens one stream and keeps it:
//
//	GET /v1/stream   Authorization: Bearer <the pod's projected token>
//	→ 200, application/x-ndjson: one Update a line, until one of both ends it
//
// With "Accept: application/x-ndjson;gzip=snapshot" whole tables come compressed: a line with Gzip, and as
// many bytes. A replica that hears nothing of Kubernetes refuses streams with 503, but for agents that
// have no table at all and take an old one: ?stale=yes.
//
// slurmctld's agent reports what its nodes do, on change only:
//
//	POST /v1/nodes   one Report, with If-Match unless it is whole
//	→ 204 and an ETag, or 412: this controller has not taken the report before, or 421: another one writes
//
// A report has 8 MiB and 65,536 nodes at most, and a pod has one on its way: its next one ends it. 400 and 413 come
// with a sentence about what is wrong with a report, 429 after too many, and 503 while others take the room.
//
// A controller that makes pods of elastic nodes answers 200 with an Answer in place of 204. What keeps pods from
// starting comes this way, and not by the stream, because only the replica that writes knows it, and another
// one may serve the stream.
package wire

import (
	"time"
)

// Audience is the audience of the tokens that agents show: a token of the Kubernetes API is refused.
const Audience = "slurmlet.dev/peers"

// Update is one line of the stream. One without any field, or with Stale alone, is a heartbeat.
type Update struct {
	// Revision counts the states of the cluster's table since Epoch, an id of the controller's process.
	Epoch    string `json:"epoch,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// Snapshot says that Peers is the whole table. The first Update of a stream that is no heartbeat is one.
	Snapshot bool `json:"snapshot,omitempty"`
	// Gzip is how many bytes follow the line: an Update that was compressed.
	Gzip int `json:"gzip,omitempty"`
	// Stale says that the controller hears nothing of Kubernetes, so that the table may be an old one.
	Stale bool `json:"stale,omitempty"`
	// Peers are new or changed; Gone are no more. With a snapshot, Gone are those whose machines were lost
	// lately, for agents whose streams were away.
	Peers []Peer `json:"peers,omitempty"`
	Gone  []Gone `json:"gone,omitempty"`
	// Self is what Kubernetes knows of the pod that reads, whole each time.
	Self *Self `json:"self,omitempty"`
	// Returning is for slurmctld's agent, whole each time. Controllers of before, and those that watch no
	// workloads, have none. Agents of before take the line for a heartbeat.
	Returning *Returning `json:"returning,omitempty"`
}

// IsHeartbeat says whether the line has no news but that the controller is there.
func (u *Update) IsHeartbeat() bool {
	return u.Epoch == "" && u.Self == nil && u.Returning == nil && len(u.Peers) == 0 && len(u.Gone) == 0
}

// Heartbeat is how long a stream is silent at most. A client takes a stream for dead after three of them.
const Heartbeat = 20 * time.Second

// Compressed is the media type of a stream whose snapshots may be compressed.
const Compressed = "application/x-ndjson;gzip=snapshot"
