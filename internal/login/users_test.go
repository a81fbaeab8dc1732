package login

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
)

// TestUserRows: the status says what holds, why nothing does, and who wanted more.
func TestUserRows(t *testing.T) {
	last := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	limits := cgroup.UserLimits{Memory: 80 << 20, Processes: 20}
	for name, c := range map[string]struct {
		status *UsersStatus
		want   []string
	}{
		"cgroups are left alone": {},
		"read-only": {
			&UsersStatus{Fault: "read-only file system"},
			[]string{"Users: have no limits: one of them can take all of the pod's memory and processes: read-only file system"},
		},
		"limits": {&UsersStatus{Limits: &limits}, []string{"Users: each may have 80 MiB of memory and 20 processes"}},
		"over them": {
			&UsersStatus{Limits: &limits, Over: []UserOver{{UID: 2001, User: "jan", Killed: 2, Last: last}, {UID: 2002, Refused: 7, Last: last}}},
			[]string{
				"Users: each may have 80 MiB of memory and 20 processes",
				"User over: jan (uid 2001): 2 processes killed for want of memory, 0 refused, last at 2026-11-28T10:00:00Z",
				"User over: a user without a session (uid 2002): 0 processes killed for want of memory, 7 refused, last at 2026-11-28T10:00:00Z",
			},
		},
	} {
		var rows []string
		c.status.Rows(func(name, format string, args ...any) { rows = append(rows, name+": "+fmt.Sprintf(format, args...)) })
		require.Equal(t, c.want, rows, name)
	}
}

// TestNote: a user is told at once, and not again and again. What is killed and what is refused are two things.
func TestNote(t *testing.T) {
	c := &userCgroups{over: map[int]UserOver{}, told: map[tellable]time.Time{}}
	require.True(t, c.note(cgroup.UserEvent{UID: 2001, Refused: 3}, "jan"))
	require.False(t, c.note(cgroup.UserEvent{UID: 2001, Refused: 4}, ""))
	require.True(t, c.note(cgroup.UserEvent{UID: 2001, Killed: 1}, "jan"))
	require.True(t, c.note(cgroup.UserEvent{UID: 2002, Refused: 1}, "ida"))
	one := c.over[2001]
	require.Equal(t, []any{"jan", int64(1), int64(7)}, []any{one.User, one.Killed, one.Refused})
}
