package login

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/pod/sshd"
)

// UsersStatus says what each user of a login pod may have, and who wanted more.
type UsersStatus struct {
	// Limits hold for all processes of one user together; nil: there are none.
	Limits *cgroup.UserLimits `json:"limits,omitempty"`
	// Fault says why there are none.
	Fault string `json:"fault,omitempty"`
	// Over are those whom the limits have stopped since the agent started, by uid.
	Over []UserOver `json:"over,omitempty"`
}

// UserOver is a user whom the limits have stopped.
type UserOver struct {
	UID int `json:"uid"`
	// User is empty when the user had no session at that time.
	User string `json:"user,omitempty"`
	// Killed is how many processes the kernel has killed for want of memory, Refused how many more there would be.
	Killed  int64     `json:"killed"`
	Refused int64     `json:"refused"`
	Last    time.Time `json:"last"`
}

// Rows writes the rows of `slurmlet status`.
func (s *UsersStatus) Rows(row func(name, format string, args ...any)) {
	switch {
	case s == nil:
	case s.Limits == nil:
		row("Users", "have no limits: one of them can take all of the pod's memory and processes: %s", s.Fault)
	default:
		row("Users", "each may have %s", s.Limits)
	}
	if s == nil {
		return
	}
	for _, one := range s.Over {
		row("User over", "%s (uid %d): %d processes killed for want of memory, %d refused, last at %s",
			cmp.Or(one.User, "a user without a session"), one.UID, one.Killed, one.Refused, one.Last.Format(time.RFC3339))
	}
}

// userCgroups are those of the users, with their limits. Without groups, users share what the pod has.
type userCgroups struct {
	groups *cgroup.Users
	// fault says why there are no groups.
	fault string
	log   func(slog.Level, string, ...slog.Attr)

	mu   sync.Mutex
	over map[int]UserOver
	// told is when a user was last told of what has been killed (true) and refused.
	told map[tellable]time.Time
}

type tellable struct {
	uid    int
	killed bool
}

// limitUsers gives users cgroups, and clears the container's memory.oom.group: with it, the kernel ends all sessions, and
// the daemons, when one user's processes reach the pod's memory limit.
func (l *Login) limitUsers() (*userCgroups, error) {
	if l.CgroupMode == cgroup.Off {
		return nil, nil
	}
	c := &userCgroups{log: l.Log, over: map[int]UserOver{}, told: map[tellable]time.Time{}}
	groups, access, err := cgroup.NewFS(l.Root).OpenUsers(l.Limits, l.overLimit)
	switch {
	case err != nil && l.CgroupMode == cgroup.Require:
		return nil, &exitcode.Fault{
			Code: exitcode.Cgroup,
			Err:  fmt.Errorf("SLURMLET_CGROUP=require: users cannot have cgroups: %w", err),
		}
	case err != nil:
		c.fault = err.Error() + ". To change it, " + cgroup.OpenTree
		l.Log(slog.LevelWarn, "users have no limits: one of them can take all of the pod's memory and processes. To "+
			"change it, "+cgroup.OpenTree, slog.Any("error", err))
		return c, nil
	}
	c.groups = groups
	limits, _ := groups.Each() // the cgroup of newcomers has them
	l.Log(slog.LevelInfo, "each user has a cgroup with limits",
		slog.String("limits", limits.String()), slog.String("cgroup", string(access)))
	return c, nil
}

func (c *userCgroups) addSSHD(pid int) {
	if c == nil || c.groups == nil {
		return
	}
	if err := c.groups.AddSSHD(pid); err != nil {
		c.log(slog.LevelWarn, "users have no limits until the agent has found their sessions", slog.Any("error", err))
	}
}

// begin puts a session's processes into the cgroup of its user.
func (c *userCgroups) begin(uid, pid int) {
	if c == nil || c.groups == nil || uid < 0 {
		return
	}
	if err := c.groups.Begin(uid, pid); err != nil {
		c.log(slog.LevelWarn, err.Error(), slog.Int("session", pid), slog.Int("uid", uid))
	}
}

// sweep moves what users' sessions have left among the newcomers.
func (c *userCgroups) sweep() {
	if c != nil && c.groups != nil {
		c.groups.Sweep()
	}
}

// end removes the cgroups of users who have left.
func (c *userCgroups) end() {
	if c != nil && c.groups != nil {
		c.groups.End()
	}
}

// Limited has only why users have no limits, which needs no look at the machine; nil where cgroups are left alone.
func (l *Login) Limited() *UsersStatus {
	if l == nil || l.userCgroups == nil {
		return nil
	}
	return &UsersStatus{Fault: l.userCgroups.fault}
}

// Users says what limits users have; nil where cgroups are left alone.
func (l *Login) Users() *UsersStatus {
	if l == nil || l.userCgroups == nil {
		return nil
	}
	c := l.userCgroups
	s := &UsersStatus{Fault: c.fault}
	if c.groups != nil {
		if limits, err := c.groups.Each(); err == nil {
			s.Limits = &limits
		} else {
			s.Fault = err.Error()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Over = slices.SortedFunc(maps.Values(c.over), func(a, b UserOver) int { return cmp.Compare(a.UID, b.UID) })
	return s
}

// toldAgain is how long a user who wants more and more is told nothing new.
const toldAgain = 10 * time.Second

// overLimit tells a user, and the log, that the limits have stopped something.
func (l *Login) overLimit(event cgroup.UserEvent) {
	c := l.userCgroups
	var user string
	var sessions []sshd.Session
	for _, s := range l.find() {
		if sshd.UID(l.Root, s.PID) == event.UID {
			user, sessions = s.User, append(sessions, s)
		}
	}
	if !c.note(event, user) {
		return
	}
	limits, _ := c.groups.Each() // Begin has made the user's of them
	text := "a user has reached the limit of memory, and the kernel has killed a process of the user's"
	if event.Killed == 0 {
		text = "a user has reached the limit of processes, and the kernel refuses more"
	}
	l.Log(slog.LevelWarn, text, slog.String("user", user), slog.Int("uid", event.UID), slog.String("limits", limits.String()))
	for _, s := range sessions {
		l.tell(s, overNotice(event, limits))
	}
}

// note keeps what the limits have done, and says whether it is time to tell it.
func (c *userCgroups) note(event cgroup.UserEvent, user string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.over[event.UID]
	one.UID, one.User, one.Last = event.UID, cmp.Or(user, one.User), time.Now()
	one.Killed, one.Refused = one.Killed+event.Killed, one.Refused+event.Refused
	c.over[event.UID] = one
	what := tellable{event.UID, event.Killed > 0}
	if time.Since(c.told[what]) < toldAgain {
		return false
	}
	c.told[what] = time.Now()
	return true
}

// overNotice writes what the user reads.
func overNotice(event cgroup.UserEvent, limits cgroup.UserLimits) []byte {
	what := "the kernel has killed one of your processes"
	if event.Killed == 0 {
		what = "you cannot start more processes"
	}
	return fmt.Appendf(nil, "\r\nslurmlet: %s: on this login node each user may have %s. Jobs have more.\r\n", what, limits)
}
