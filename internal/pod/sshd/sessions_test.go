package sshd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeProc writes what /proc tells of processes, as OpenSSH 10.0 looks there, and 10.6 where it says so.
type fakeProc struct {
	pid, parent, uid, tty int
	command, title        string
}

const pts = 136 << 8

func write(t *testing.T, all ...fakeProc) string {
	t.Helper()
	root := t.TempDir()
	for _, p := range all {
		dir := filepath.Join(root, "proc", fmt.Sprint(p.pid))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for name, text := range map[string]string{
			"stat":    fmt.Sprintf("%d (%s) S %d %d %d %d -1 4194560 0", p.pid, p.command, p.parent, p.pid, p.pid, p.tty),
			"status":  fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\n", p.command, p.uid, p.uid, p.uid, p.uid),
			"cmdline": p.title + "\x00   \x00",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
	}
	return root
}

var listener = fakeProc{58, 1, 0, 0, "sshd", "sshd: /usr/sbin/sshd -D -e [listener] 0 of 10-100 startups"}

func TestSessions(t *testing.T) {
	root := write(t, listener,
		fakeProc{84, 58, 0, 0, "sshd-session", "sshd-session: alice [priv]"},
		fakeProc{91, 84, 1000, 0, "sshd-session", "sshd-session: alice@pts/0"},
		fakeProc{92, 91, 1000, pts, "bash", "-bash"},
		fakeProc{93, 92, 1000, pts, "vi )( 9", "vi"},
		fakeProc{94, 91, 1000, pts + 3, "bash", "-bash"},
		// sshd's own parts are not told apart by OpenSSH before 9.8.
		fakeProc{100, 58, 0, 0, "sshd", "sshd: bob [priv]"},
		fakeProc{101, 100, 1001, 0, "sshd", "sshd: bob@notty"},
		// Who has not been let in yet.
		fakeProc{110, 58, 0, 0, "sshd-session", "sshd-session: eve [priv]"},
		fakeProc{111, 110, 106, 0, "sshd-auth", "sshd-auth: eve [net]"},
		fakeProc{112, 58, 0, 0, "sshd", "sshd: mallory [priv]"},
		fakeProc{113, 112, 106, 0, "sshd", "sshd: mallory [net]"},
		// OpenSSH 10.6.
		fakeProc{115, 58, 0, 0, "sshd-session", "sshd-session: jan [postauth]"},
		fakeProc{116, 115, 1002, 0, "sshd-session", "sshd-session: jan@notty"},
		fakeProc{117, 58, 0, 0, "sshd-session", "sshd-session: [accepted]"},
		fakeProc{118, 117, 106, 0, "sshd-auth", "sshd-auth: [session-auth]"},
		// A title that is just being written.
		fakeProc{119, 58, 0, 0, "sshd-session", "sshd-session: kim [pr"},
		fakeProc{122, 119, 1003, 0, "sshd-session", "sshd-session: kim [pr"},
		// Root has no monitor.
		fakeProc{120, 58, 0, 0, "sshd-session", "sshd-session: root@pts/7"},
		fakeProc{121, 120, 0, pts + 7, "bash", "-bash"},
		// A user may call a process as he likes, and use it as a parent.
		fakeProc{130, 1, 1000, 0, "sshd-session", "sshd-session: root [priv]"},
		fakeProc{131, 130, 1000, 0, "sshd-session", "sshd-session: root@pts/9"},
	)
	sessions, err := Sessions(root)
	require.NoError(t, err)
	alice := Session{"alice", 84}
	require.Equal(t, []Session{alice, {"bob", 100}, {"jan", 115}, {"kim", 119}, {"root", 120}}, sessions)

	pending, err := Pending(root)
	require.NoError(t, err)
	require.Equal(t, []Session{alice, {"bob", 100}, {"eve", 110}, {"mallory", 112}, {"jan", 115}, {"kim", 119}, {"root", 120}}, pending)

	for monitor, user := range map[int]int{84: 1000, 100: 1001, 110: -1, 112: -1, 115: 1002, 117: -1, 119: 1003, 120: 0, 999: -1} {
		require.Equal(t, user, UID(root, monitor), monitor)
	}

	terminals, err := Terminals(root, alice)
	require.NoError(t, err)
	require.Equal(t, []string{"/dev/pts/0", "/dev/pts/3"}, terminals)
	terminals, err = Terminals(root, Session{"root", 120})
	require.NoError(t, err)
	require.Equal(t, []string{"/dev/pts/7"}, terminals)

	_, err = Sessions(t.TempDir())
	require.ErrorContains(t, err, "cannot list processes")
}

func TestParseStat(t *testing.T) {
	for text, want := range map[string]process{
		"7 (sh) S 1 7 7 0 -1":      {7, 1, "sh", -1},
		"7 (a) (b)) R 2 7 7 34816": {7, 2, "a) (b)", 0},
		"7 (sh) S 1 7 7 34823 -1":  {7, 1, "sh", 7},
		"7 (sh) S 1 7 7 1083392":   {7, 1, "sh", 256},
		"7 (sh) S 1 7 7 1025":      {7, 1, "sh", -1}, // tty1
		"7 (sh) S 1":               {}, "7": {}, "": {}, "7 )(": {},
		"7 (sh) S x 7 7 0": {},
	} {
		have, ok := parseStat(7, []byte(text))
		require.Equal(t, want, have, text)
		require.Equal(t, want != process{}, ok, text)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) (b)) R 2 7 7 34816"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, ok := parseStat(7, text); ok {
			require.GreaterOrEqual(t, p.terminal, -1)
		}
	})
}

func TestLogins(t *testing.T) {
	user, from, ok := Accepted("Accepted publickey for alice from 10.88.1.2 port 46748 ssh2: ED25519 SHA256:1Vp")
	require.Equal(t, []any{"alice", "10.88.1.2", true}, []any{user, from, ok})
	for _, line := range []string{"", "Accepted ", "Accepted publickey for alice", "Server listening on 0.0.0.0 port 22.", "Disconnected from user alice 10.88.1.2 port 46748"} {
		_, _, ok = Accepted(line)
		require.False(t, ok, line)
	}
	var l Logins
	first, second, bobs := Session{"alice", 1}, Session{"alice", 2}, Session{"bob", 3}
	l.Add("alice", "192.0.2.1", []Session{first, bobs})
	l.Add("alice", "192.0.2.2", []Session{first, second, bobs})
	require.Equal(t, []string{"192.0.2.1", "192.0.2.2", ""}, []string{l.From(first), l.From(second), l.From(bobs)})
	l.Add("bob", "192.0.2.3", []Session{second, bobs})
	require.Equal(t, []string{"", "192.0.2.2", "192.0.2.3"}, []string{l.From(first), l.From(second), l.From(bobs)})
}

func TestOwners(t *testing.T) {
	root := write(t, listener,
		fakeProc{84, 58, 0, 0, "sshd-session", "sshd-session: alice [priv]"},
		fakeProc{91, 84, 2000, 0, "sshd-session", "sshd-session: alice@pts/0"},
		fakeProc{92, 91, 2000, pts, "bash", "-bash"},
		fakeProc{93, 1, 2001, 0, "tmux", "tmux"},
		fakeProc{94, 1, 999, 0, "daemon", "daemon"},
		// A user may call a process as he likes.
		fakeProc{95, 1, 2001, 0, "sshd-session", "sshd-session: bob [priv]"},
		fakeProc{96, 95, 2001, 0, "sshd-session", "sshd-session: bob@pts/1"},
	)
	owners, err := Owners(root)
	require.NoError(t, err)
	require.Equal(t, map[int]string{2000: "alice", 2001: ""}, owners)
	pids, err := ProcessesOf(root, 2001)
	require.NoError(t, err)
	require.Equal(t, []int{93, 95, 96}, pids)
	pids, err = ProcessesOf(root, 0)
	require.NoError(t, err)
	require.Empty(t, pids)
}
