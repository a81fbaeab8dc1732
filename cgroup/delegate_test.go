package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// In a plain directory nothing moves and nothing is enabled: what the kernel
// does is in the e2e tests.
func TestDelegate(t *testing.T) {
	f := memberOf(t, "/slurmlet", own, writable, map[string]string{
		"cgroup.procs": "", "slurmlet/cgroup.procs": "1\n", "cgroup.subtree_control": "",
		"system.slice/cgroup.controllers": "cpu cpuset memory\n",
	})
	d, err := f.Delegate("n1")
	require.NoError(t, err)
	assert.Equal(t, Writable, d.Access)
	assert.Equal(t, "/sys/fs/cgroup", d.Base)
	assert.Equal(t, "/sys/fs/cgroup/system.slice/n1_slurmstepd.scope", d.Steps)
	require.DirExists(t, filepath.Join(f.root, d.Steps))
	// A plain file holds what was written last, where the kernel would add.
	written, err := os.ReadFile(filepath.Join(f.root, mount, "cgroup.subtree_control"))
	require.NoError(t, err)
	assert.Equal(t, "+pids", string(written))
	assert.False(t, d.Complete(), "only what is read back counts: %v", d.Missing)
}

// SELinux is not to be seen from inside; a user's first search should find it.
func TestDelegateSaysWhatElseRefuses(t *testing.T) {
	denied := &os.PathError{Op: "mkdir", Path: "/sys/fs/cgroup/slurmlet", Err: unix.EACCES}
	assert.ErrorContains(t, noLeaf(denied), "container_manage_cgroup")
	assert.NotContains(t, noLeaf(&os.PathError{Op: "mkdir", Path: "x", Err: unix.ENOSPC}).Error(), "SELinux")
}

func TestDelegateWithoutCgroup2(t *testing.T) {
	_, err := NewFS(t.TempDir()).Delegate("n1")
	require.ErrorIs(t, err, ErrNotUnified)
}

// A cgroup.procs of the host's root would be emptied into a leaf there.
func TestDelegateTouchesNothingThatIsNotTheContainers(t *testing.T) {
	for name, f := range map[string]FS{
		"the host's namespace": memberOf(t, "/kubepods/c1", initialCgroup, writable, map[string]string{"cgroup.procs": "1\n"}),
		"the host's tree":      memberOf(t, "/", own, hostPath, map[string]string{"cgroup.procs": "1\n"}),
	} {
		_, err := f.Delegate("n1")
		require.Error(t, err, name)
		require.NoDirExists(t, filepath.Join(f.root, mount, Leaf), name)
		require.NoDirExists(t, filepath.Join(f.root, mount, "system.slice"), name)
	}
}

func TestDelegateOnADamagedProc(t *testing.T) {
	for name, c := range map[string]struct{ drop, want string }{
		"no namespace":     {"proc/42/ns/cgroup", "cannot read the cgroup namespace"},
		"no pid namespace": {"proc/42/ns/pid", "cannot read the pid namespace"},
		"no mountinfo":     {"proc/42/mountinfo", "cannot find what is mounted at /sys/fs/cgroup"},
		"no cgroup":        {"proc/42/cgroup", "cannot read /proc/self/cgroup"},
		"no processes":     {"sys/fs/cgroup/cgroup.procs", "cannot list the processes of the container's cgroup"},
	} {
		f := memberOf(t, "/", own, writable, map[string]string{"cgroup.procs": ""})
		require.NoError(t, os.Remove(filepath.Join(f.root, c.drop)))
		_, err := f.Delegate("n1")
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestWhatIsMissing(t *testing.T) {
	gone := &os.PathError{Op: "write", Path: "x", Err: os.ErrPermission}
	all := missing([]string{"cpu", "pids"}, []refusal{{"memory", gone}})
	require.Len(t, all, 2)
	assert.Equal(t, "cpuset (not in the container's cgroup.controllers): ConstrainCores=yes cannot work", all[0].String())
	assert.Equal(t, "memory (permission denied): ConstrainRAMSpace=yes, ConstrainSwapSpace=yes and JobAcctGatherType=jobacct_gather/cgroup cannot work", all[1].String())
	assert.Empty(t, missing([]string{"cpu", "cpuset", "memory"}, nil))
}

func TestDevicesNeedCapabilities(t *testing.T) {
	for mask, may := range map[string]bool{
		"00000000a80425fb": false, // containerd's default
		"0000000000200000": true,  // CAP_SYS_ADMIN
		"0000008000001000": true,  // CAP_BPF and CAP_NET_ADMIN
		"0000008000000000": false,
		"000001ffffffffff": true,
		"garbage":          false,
	} {
		f := tree(t, map[string]string{"proc/42/status": "Name:\tx\nCapEff:\t" + mask + "\n"})
		assert.Equal(t, may, len(f.missingDevices()) == 0, mask)
	}
	assert.NotEmpty(t, NewFS(t.TempDir()).missingDevices())
}

// Devices are an extra: an unprivileged pod is complete without them.
func TestComplete(t *testing.T) {
	d := Delegation{Steps: "/x", Missing: []Missing{{Controller: devicesController}}}
	assert.True(t, d.Complete())
	d.Missing = append(d.Missing, Missing{Controller: memoryController})
	assert.False(t, d.Complete())
	assert.False(t, Delegation{}.Complete())
}

// With a namespace of its own the container's own limits are at the top; those
// above it still bind.
func TestLimitsOutsideTheContainer(t *testing.T) {
	inside := machine("/slurmlet", map[string]string{"memory.max": "4096\n", "cpu.max": "100000 100000\n", "slurmlet/memory.max": "max\n"})
	host := tree(t, map[string]string{
		"sys/devices/system/cpu/online": "0-7\n", "kubepods/pod1/memory.max": "2048\n", "kubepods/cpu.max": "400000 100000\n", "kubepods/pod1/c1/memory.max": "1\n",
	})
	view, err := os.OpenRoot(host.root)
	require.NoError(t, err)
	defer view.Close()
	l, err := tree(t, inside).Within(Delegation{outside: &outside{view, "/kubepods/pod1"}}).Limits()
	require.NoError(t, err)
	assert.Equal(t, Bound[int64]{2048, "outside the container: /kubepods/pod1/memory.max"}, l.Memory)
	assert.Equal(t, Bound[float64]{1, "/sys/fs/cgroup/cpu.max"}, l.Quota)
}
