package sshd

import (
	"strings"
	"sync"
)

// Logins remembers where sessions came from, which only sshd's log has: the
// agent may not look at the sockets of another process, and a container has no
// utmp. It is safe for concurrent use.
type Logins struct {
	mu   sync.Mutex
	from map[Session]string
}

// Accepted reads sshd's "Accepted publickey for alice from 192.0.2.1 port 5000
// ssh2: …".
func Accepted(line string) (user, from string, ok bool) {
	said, found := strings.CutPrefix(line, "Accepted ")
	if !found {
		return "", "", false
	}
	fields := strings.Fields(said)
	if len(fields) < 7 || fields[1] != "for" || fields[3] != "from" || fields[5] != "port" {
		return "", "", false
	}
	return fields[2], fields[4], true
}

// Add gives an accepted login to the session of that user's that is not known
// yet, and forgets those that are over. The line comes before the user's process
// does, so pending is all of sshd's monitors.
func (l *Logins) Add(user, from string, pending []Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	living := map[Session]string{}
	given := false
	for _, s := range pending {
		origin, known := l.from[s]
		if !known && s.User == user && !given {
			origin, known, given = from, true, true
		}
		if known {
			living[s] = origin
		}
	}
	l.from = living
}

// From is where a session came from; "" when its login was not seen.
func (l *Logins) From(s Session) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from[s]
}
