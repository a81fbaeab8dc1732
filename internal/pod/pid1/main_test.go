package pid1

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test binary plays the first process of a container too: Run needs the main goroutine, which the tests do not have.
const roleEnv = "PID1_TEST_ROLE"

// roles are what the re-executed binary does on its main goroutine; the result is its exit code.
var roles = map[string]func() int{
	"torture":  tortureRole,
	"threads":  threadsRole,
	"statuses": statusesRole,
	"zombie":   zombieRole,
	"late":     lateRole,
	"sigpipe":  sigpipeRole,
	"early":    earlyRole,
	"unheard":  unheardRole,
}

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleEnv)]; ok {
		os.Exit(role())
	}
	os.Exit(m.Run())
}

// play runs this binary in a role, as PID 1 of a pid namespace of its own or as an ordinary process, and returns what it wrote.
func play(t *testing.T, asInit bool, role string, args ...string) string {
	t.Helper()
	if asInit && os.Getuid() != 0 {
		t.Skip("a pid namespace needs root")
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if asInit {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	require.NoError(t, cmd.Run(), "%s", &output)
	return output.String()
}

// ways are the two ways to become the parent of orphans.
var ways = []struct {
	name   string
	asInit bool
}{{"as PID 1", true}, {"as subreaper", false}}
