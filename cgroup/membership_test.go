package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A container's mounts as containerd and runc make them, and the host's.
const (
	sys      = "29 1 0:5 / /sys ro,nosuid - sysfs sysfs rw\n"
	writable = sys + "36 29 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n"
	readOnly = "36 29 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n"
	hostPath = "36 29 0:26 /../../.. /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup rw,nsdelegate\n"
	own      = "cgroup:[4026532709]"
)

// memberOf is a machine on which the process is in the cgroup path, in a namespace.
func memberOf(t *testing.T, path, namespace, mountinfo string, files map[string]string) FS {
	all := machine(path, files)
	all["proc/42/mountinfo"] = mountinfo
	f := tree(t, all)
	require.NoError(t, os.Mkdir(filepath.Join(f.root, "proc/42/ns"), 0o755))
	require.NoError(t, os.Symlink("42", filepath.Join(f.root, "proc/1")))
	link(t, f, "cgroup", namespace)
	link(t, f, "pid", "pid:[4026532708]")
	return f
}

func link(t *testing.T, f FS, space, to string) {
	name := filepath.Join(f.root, "proc/42/ns", space)
	_ = os.Remove(name)
	require.NoError(t, os.Symlink(to, name))
}

// Slurm's base is beside PID 1's cgroup.
func TestPID1MustBeTheContainers(t *testing.T) {
	f := memberOf(t, "/", own, writable, nil)
	link(t, f, "pid", initialPID)
	_, err := f.Delegate("n1")
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "the agent is in the host's pid namespace (hostPID, or no container at all)")

	f = memberOf(t, "/", own, writable, map[string]string{"../../../proc/7/cgroup": "0::/../pause\n"})
	require.NoError(t, os.Remove(filepath.Join(f.root, "proc/1")))
	require.NoError(t, os.Symlink("7", filepath.Join(f.root, "proc/1")))
	_, err = f.Delegate("n1")
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "PID 1 is in the cgroup /../pause and the agent in / (shareProcessNamespace)")
}

// Unmounting in a shared mount would take the host's /sys/fs/cgroup away.
func TestASharedMountIsSeen(t *testing.T) {
	for sysfs, want := range map[string]bool{
		sys: false,
		"29 1 0:5 / /sys ro,nosuid shared:7 - sysfs sysfs rw\n":           true,
		"29 1 0:5 / /sys ro,nosuid shared:7 master:1 - sysfs sysfs rw\n":  true,
		"29 1 0:5 / /sys ro,nosuid master:1 - sysfs sysfs rw\n":           false,
		"28 1 0:5 / /other ro,nosuid shared:7 - sysfs sysfs rw\n":         false,
		"29 1 0:5 / /sys ro,nosuid - sysfs sysfs rw,x=a shared:7 - b c\n": false,
	} {
		m, err := parseMountinfo(sysfs+readOnly, "/sys/fs/cgroup")
		require.NoError(t, err)
		assert.Equal(t, want, m.shared, sysfs)
	}
}

func TestTheWayToAWritableTree(t *testing.T) {
	for name, c := range map[string]struct {
		path, namespace, mountinfo string
		want                       AccessMode
	}{
		"a writable tree":                            {"/", own, writable, Writable},
		"a writable tree, from the leaf":             {"/slurmlet", own, writable, Writable},
		"read-only":                                  {"/", own, readOnly, Remounted},
		"writable, mounted over a read-only one":     {"/", own, readOnly + writable, Writable},
		"read-only, mounted over a writable one":     {"/", own, writable + readOnly, Remounted},
		"the host's namespace":                       {"/kubepods/pod1/c1", initialCgroup, writable, OwnNamespace},
		"the host's namespace, read-only":            {"/kubepods/pod1/c1", initialCgroup, readOnly, OwnNamespace},
		"a container called slurmlet, on the host":   {"/slurmlet", initialCgroup, writable, OwnNamespace},
		"the host's root cgroup":                     {"/", initialCgroup, writable, OwnNamespace},
		"a namespace that begins further up":         {"/init/c1", own, writable, OwnNamespace},
		"a process that was moved out":               {"/../c2", own, writable, OwnNamespace},
		"the host's tree as a hostPath volume":       {"/", own, hostPath, OwnNamespace},
		"a hostPath volume over the container's own": {"/", own, writable + hostPath, OwnNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := memberOf(t, c.path, c.namespace, c.mountinfo, nil).membership()
			require.NoError(t, err)
			assert.Equal(t, c.want, s.access(), "%v", s)
		})
	}
}

// What a remount does not repeat it takes away.
func TestARemountKeepsTheMountsOtherFlags(t *testing.T) {
	m, err := parseMountinfo("36 29 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime shared:1 - cgroup2 cgroup rw\n", "/sys/fs/cgroup")
	require.NoError(t, err)
	assert.Equal(t, mounted{"/", true, false, unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RELATIME}, m)
}

func TestMountinfoThatDoesNotHelp(t *testing.T) {
	for name, c := range map[string]struct{ table, want string }{
		"empty":          {"", "/proc/self/mountinfo names no mount at /sys/fs/cgroup"},
		"not there":      {"36 29 0:26 / /sys/fs/cgroup2 rw - cgroup2 cgroup rw\n", "names no mount at /sys/fs/cgroup"},
		"cgroup v1":      {"36 29 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "is not a cgroup v2 hierarchy"},
		"a torn line":    {"36 29 0:26 / /sys/fs/cgroup rw,nosuid", "is not a cgroup v2 hierarchy"},
		"a shorter line": {"36 29\n", "names no mount"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseMountinfo(c.table, "/sys/fs/cgroup")
			require.ErrorIs(t, err, ErrNotUnified)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add(writable + readOnly)
	f.Add(hostPath)
	f.Fuzz(func(t *testing.T, table string) {
		if m, err := parseMountinfo(table, "/sys/fs/cgroup"); err == nil && m.root == "" {
			t.Errorf("%q: a mount without a root", table)
		}
	})
}
