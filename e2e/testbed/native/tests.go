package native

import (
	"context"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// Given is what those inside the namespaces are told of what they run: a version of Slurm, the root file system with it,
// and slurmlet's program.
type Given struct{ Version, Root, Slurmlet string }

// TestMain is that of a package of tests two folders below e2e. Where Enter has run the program, inside runs in place of the
// tests.
func TestMain[Settings any](m *testing.M, inside func(Settings) error) {
	Run(inside)
	os.Exit(m.Run())
}

// For returns what a test of a version of Slurm is given.
func For(t *testing.T, version string) Given {
	t.Helper()
	slurmlet, err := FindSlurmlet("../../../bin/slurmlet")
	if err != nil {
		t.Fatal(err)
	}
	root, err := parts.Root(t.Context(), version, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return Given{version, root, slurmlet}
}

// EachVersion runs a test for each version of Slurm.
func EachVersion(t *testing.T, test func(t *testing.T, g Given)) {
	t.Helper()
	for _, version := range parts.Versions() {
		t.Run(version, func(t *testing.T) { test(t, For(t, version)) })
	}
}

// Either runs a test whose code, ours and Slurm's, does the same on each version: on one, which the test's name chooses, and
// on each with SLURMLET_E2E_FULL=1, or where -run names one.
func Either(t *testing.T, test func(t *testing.T, g Given)) {
	t.Helper()
	versions := parts.Versions()
	one(t, versions[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(versions))], test) //nolint:gosec // there are two
}

// Newest is Either for a test that has more to see in the newest version.
func Newest(t *testing.T, test func(t *testing.T, g Given)) {
	t.Helper()
	one(t, slices.Max(parts.Versions()), test)
}

func one(t *testing.T, version string, test func(t *testing.T, g Given)) {
	t.Helper()
	if os.Getenv("SLURMLET_E2E_FULL") != "" || named() {
		EachVersion(t, test)
		return
	}
	t.Run(version, func(t *testing.T) { test(t, For(t, version)) })
}

// named: -run names a version.
func named() bool {
	run := flag.Lookup("test.run")
	return run != nil && slices.ContainsFunc(parts.Versions(), func(version string) bool {
		return strings.Contains(strings.ReplaceAll(run.Value.String(), `\`, ""), version)
	})
}

// Stop stops a child of this process. After SIGSTOP alone, others of its threads run on until one has taken the signal: a
// slurmctld has answered 36 ms later.
func Stop(p *os.Process) error {
	if err := p.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil) })
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Play enters namespaces for as long as the limit. What those inside have said is above the failure.
func Play(t *testing.T, limit time.Duration, settings any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := Enter(ctx, settings); err != nil {
		t.Fatal(err)
	}
}
