package agent

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/internal/pod/sack"
)

// SackStatus is who has connections to sack.socket.
type SackStatus struct {
	sack.Status
	// Port tells who crowds the daemon's port while a sackd gives credentials in its place.
	Port string `json:"port,omitempty"`
}

var ofSack = []metric[SackStatus]{
	{"sack_connections", "", "Connections of users to sack.socket", func(s *SackStatus) []sample { return amount(s.Connections) }},
	{"sack_ended_total", "", "Connections to sack.socket that were ended, because they said nothing or their uid had too many", func(s *SackStatus) []sample { return amount(s.Ended) }},
	{"sack_crowded", "", "1 while a user crowds sack.socket or the daemon's port; the status names the uids", func(s *SackStatus) []sample { return whether(s.crowded()) }},
}

// describe is nil without a door.
func (d *door) describe() *SackStatus {
	told := d.Status()
	if told == nil {
		return nil
	}
	s := &SackStatus{Status: *told}
	if port := d.crowd.Load(); port != nil {
		s.Port = *port
	}
	return s
}

func (s *SackStatus) crowded() bool { return s != nil && (len(s.Crowding) > 0 || s.Port != "") }

// String names those that crowd.
func (s *SackStatus) String() string {
	var said []string
	for _, h := range s.Crowding {
		said = append(said, fmt.Sprintf("uid %d has %d connections, and %d were ended", h.UID, h.Connections, h.Ended))
	}
	if s.Port != "" {
		said = append(said, "the daemon's port has "+s.Port)
	}
	return strings.Join(said, "; ")
}

func (s *SackStatus) rows(row func(name, format string, args ...any)) {
	if s.crowded() {
		row("Crowded", "%s", s)
	}
}
