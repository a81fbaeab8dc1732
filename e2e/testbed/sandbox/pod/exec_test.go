package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	passwd = "root:x:0:0:root:/root:/bin/bash\nbroken\nalice:x:1000:1001:,,,:/home/alice:/bin/bash\n"
	groups = "root:x:0:\nadm:x:4:bob,alice\nali:x:9:malice\nusers:x:100:alice\n"
)

func TestFindUser(t *testing.T) {
	want := user{name: "alice", uid: 1000, gid: 1001, home: "/home/alice", groups: []int{4, 100}}
	for _, name := range []string{"alice", "1000"} {
		got, err := findUser([]byte(passwd), []byte(groups), name)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := findUser([]byte(passwd), []byte(groups), "carol")
	assert.EqualError(t, err, "no user carol in the pod's /etc/passwd")
}

func TestExecArgs(t *testing.T) {
	alice := user{name: "alice", uid: 1000, gid: 1001, home: "/home/alice", groups: []int{4}}
	got := execArgs("login-0", "/p/pid", Exec{Dir: "/shared", Env: []string{"A=b c"}, TTY: true}, alice, []string{"srun", "-N2", "hostname"})
	assert.Equal(t, []string{
		"exec", "--pid-file", "/p/pid", "--cwd", "/shared", "--user", "1000:1001", "--env", "HOME=/home/alice", "--env", "USER=alice",
		"--additional-gids", "4", "--env", "A=b c", "--tty", "login-0", "srun", "-N2", "hostname",
	}, got)
}

func TestEnterArgs(t *testing.T) {
	alice := user{name: "alice", uid: 1000, gid: 1001, home: "/home/alice", groups: []int{4}}
	got := enterArgs(7, Spec{Capabilities: []string{"CAP_KILL", "CAP_SYS_ADMIN"}}, Exec{}, alice, []string{"squeue", "--me"})
	assert.Equal(t, []string{
		"--target", "7", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wdns=/home/alice", "--cgroup", "--",
		"setpriv", "--reuid", "1000", "--regid", "1001", "--groups", "1001,4", "--bounding-set", "-all,+kill,+sys_admin",
		"--inh-caps", "-all", "--pdeathsig", "KILL", "--", "squeue", "--me",
	}, got)
}
