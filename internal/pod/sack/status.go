package sack

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
)

// Status is who has connections to sack.socket.
type Status struct {
	// Connections are those of all users, and Ended counts those that were ended, because their uid had too many, or
	// because they had said nothing for too long.
	Connections int   `json:"connections"`
	Ended       int64 `json:"ended"`
	// Crowding are the uids whose connections were ended within the last minute, the one with the most first, ten at most.
	Crowding []Holder `json:"crowding,omitempty"`
	// Port names who crowds the daemon's port while a sackd gives credentials in its place.
	Port string `json:"port,omitempty"`
}

// Holder is a uid with more connections than its share.
type Holder struct {
	UID         uint32 `json:"uid"`
	Connections int    `json:"connections"`
	Ended       int    `json:"ended"`
}

// Status is nil without a door.
func (k *Kiosk) Status() *Status {
	s := k.door.Status()
	if port := k.port.Load(); s != nil && port != nil {
		s.Port = *port
	}
	return s
}

// Crowded says whether a user crowds the socket or the port.
func (s *Status) Crowded() bool { return s != nil && (len(s.Crowding) > 0 || s.Port != "") }

// String names those that crowd.
func (s *Status) String() string {
	var words []string
	for _, h := range s.Crowding {
		words = append(words, fmt.Sprintf("uid %d has %d connections, and %d were ended", h.UID, h.Connections, h.Ended))
	}
	if s.Port != "" {
		words = append(words, "the daemon's port has "+s.Port)
	}
	return strings.Join(words, "; ")
}

// Rows writes the status for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	if s.Crowded() {
		row("Crowded", "%s", s)
	}
}

// Metrics lists the metrics that a Status has.
var Metrics = []exposition.Metric[Status]{
	{Name: "sack_connections", Help: "Connections of users to sack.socket", Samples: func(s *Status) []exposition.Sample {
		return exposition.Amount(s.Connections)
	}},
	{
		Name: "sack_ended_total",
		Help: "Connections to sack.socket that were ended, because they said nothing or their uid had too many",
		Samples: func(s *Status) []exposition.Sample {
			return exposition.Amount(s.Ended)
		},
	},
	{
		Name: "sack_crowded",
		Help: "1 while a user crowds sack.socket or the daemon's port; the status names the uids",
		Samples: func(s *Status) []exposition.Sample {
			return exposition.Whether(s.Crowded())
		},
	},
}
