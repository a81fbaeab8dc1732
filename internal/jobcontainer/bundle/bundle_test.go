package bundle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// write makes a bundle of a configuration.
func write(t testing.TB, config specs.Spec) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rootfs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	return dir
}

func TestRead(t *testing.T) {
	umask, score := uint32(0o27), 100
	dir := write(t, specs.Spec{
		Version: "1.0.2-dev", Root: &specs.Root{Path: "rootfs", Readonly: true}, Hostname: "h",
		Process: &specs.Process{
			Args: []string{"ignored"}, Cwd: "/work", Env: []string{"A=b"}, OOMScoreAdj: &score, NoNewPrivileges: true,
			User:    specs.User{UID: 33, GID: 34, Umask: &umask, AdditionalGids: []uint32{34}},
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1, Hard: 2}},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "data", Source: "own", Options: []string{"rbind", "rro", "rslave", "noatime"}},
			{Destination: "/dev", Type: "tmpfs", Options: []string{"size=1m", "uid=0", "nosuid", "strictatime"}},
			{Destination: "/dev/pts", Type: "devpts", Options: []string{"newinstance", "gid=5"}},
			{Destination: "/sys", Type: "sysfs", Options: []string{"ro"}},
		},
		Linux: &specs.Linux{
			UIDMappings: []specs.LinuxIDMapping{{ContainerID: 33, HostID: 1000, Size: 1}},
			Namespaces:  []specs.LinuxNamespace{{Type: "user"}, {Type: "uts"}, {Type: "network"}, {Type: "pid"}},
			Devices:     []specs.LinuxDevice{{Path: "/dev/fuse"}},
			MaskedPaths: []string{"/proc/kcore"},
			Resources:   &specs.LinuxResources{}, CgroupsPath: "/x",
		},
	})
	c, err := Read(dir, 1000, 1001)
	require.NoError(t, err)
	const ro = unix.MOUNT_ATTR_RDONLY
	assert.Equal(t, Container{
		Root: dir + "/rootfs", ReadOnly: true, UID: 33, GID: 34, Cwd: "/work", Env: []string{"A=b"}, Umask: &umask, OOMScore: &score,
		NoNewPrivileges: true, Limits: []Limit{{"RLIMIT_NOFILE", 1, 2}}, Namespaces: []string{"net", "pid", "uts"}, Hostname: "h",
		Mounts: []Mount{
			{Field: "mounts[0]", Kind: Proc, Source: "/proc", Target: "/proc"},
			{
				Field: "mounts[1]", Kind: Bind, Source: dir + "/own", Target: "/data", Set: ro, Propagation: unix.MS_SLAVE | unix.MS_REC,
			},
			{Field: "mounts[2]", Kind: Tmpfs, Target: "/dev", Set: unix.MOUNT_ATTR_NOSUID, Data: []string{"size=1m"}},
			{Field: "mounts[3]", Kind: Bind, Source: "/dev/pts", Target: "/dev/pts"},
			{Field: "mounts[4]", Kind: Bind, Source: "/sys", Target: "/sys", Set: ro},
		},
		Devices: []string{"/dev/fuse"}, Masked: []string{"/proc/kcore"},
	}, c)
	assert.Equal(t, unix.RLIMIT_NOFILE, c.Limits[0].Resource())
}

func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*specs.Spec){
		`ociVersion: "": want 1.x`:                        func(s *specs.Spec) { s.Version = "" },
		`root.path: "": want`:                             func(s *specs.Spec) { s.Root = nil },
		`root.path: `:                                     func(s *specs.Spec) { s.Root.Path = "/dev/null" },
		`hooks.prestart: "/h"`:                            func(s *specs.Spec) { s.Hooks = &specs.Hooks{Prestart: []specs.Hook{{Path: "/h"}}} }, //nolint:staticcheck // as above
		`hooks.poststop: "/h"`:                            func(s *specs.Spec) { s.Hooks = &specs.Hooks{Poststop: []specs.Hook{{Path: "/h"}}} },
		`windows: want none`:                              func(s *specs.Spec) { s.Windows = &specs.Windows{} },
		`linux.seccomp: want none`:                        func(s *specs.Spec) { s.Linux.Seccomp = &specs.LinuxSeccomp{} },
		`linux.sysctl: want none`:                         func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{"a": "b"} },
		`linux.rootfsPropagation: "shared": want private`: func(s *specs.Spec) { s.Linux.RootfsPropagation = "shared" },
		`linux.gidMappings: "2 mappings": want one`: func(s *specs.Spec) {
			s.Linux.GIDMappings = make([]specs.LinuxIDMapping, 2)
		},
		`linux.uidMappings[0].size: "9"`: func(s *specs.Spec) { s.Linux.UIDMappings = []specs.LinuxIDMapping{{Size: 9}} },
		`process.user.uid: "5": want 0`: func(s *specs.Spec) {
			s.Process.User.UID = 5
			s.Linux.UIDMappings = []specs.LinuxIDMapping{{HostID: 1000, Size: 1}}
		},
		`process.user.additionalGids[0]: "27"`:  func(s *specs.Spec) { s.Process.User.AdditionalGids = []uint32{27} },
		`process.cwd: "x": want an absolute`:    func(s *specs.Spec) { s.Process.Cwd = "x" },
		`process.env[0]: "x": want NAME=value`:  func(s *specs.Spec) { s.Process.Env = []string{"x"} },
		`process.apparmorProfile: want none`:    func(s *specs.Spec) { s.Process.ApparmorProfile = "x" },
		`process.rlimits[0].type: "NOFILE"`:     func(s *specs.Spec) { s.Process.Rlimits = []specs.POSIXRlimit{{Type: "NOFILE"}} },
		`process.rlimits[0].soft: "2"`:          func(s *specs.Spec) { s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_CPU", Soft: 2, Hard: 1}} },
		`linux.namespaces[0].type: "time"`:      func(s *specs.Spec) { s.Linux.Namespaces = []specs.LinuxNamespace{{Type: "time"}} },
		`linux.namespaces[0].path: "/proc/1/x"`: func(s *specs.Spec) { s.Linux.Namespaces = []specs.LinuxNamespace{{Type: "pid", Path: "/proc/1/x"}} },
		`hostname: "h": want none, or uts`:      func(s *specs.Spec) { s.Hostname = "h" },
		`linux.devices[0].path: "/etc/shadow"`:  func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/etc/shadow"}} },
		`linux.devices[0].path: "/dev/../x"`:    func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/../x"}} },
		`linux.maskedPaths[0]: "x": want`:       func(s *specs.Spec) { s.Linux.MaskedPaths = []string{"x"} },
		`mounts[0].destination: "/"`:            func(s *specs.Spec) { s.Mounts = []specs.Mount{{Destination: "/"}} },
		`mounts[0].type: "overlay"`:             func(s *specs.Spec) { s.Mounts = []specs.Mount{{Destination: "/x", Type: "overlay"}} },
		`mounts[0].source: "": want a path`:     func(s *specs.Spec) { s.Mounts = []specs.Mount{{Destination: "/x", Type: "bind"}} },
		`mounts[0].options[0]: "or": want`: func(s *specs.Spec) {
			s.Mounts = []specs.Mount{{Destination: "/x", Type: "tmpfs", Options: []string{"or"}}}
		},
		`mounts[0].uidMappings: want none`: func(s *specs.Spec) {
			s.Mounts = []specs.Mount{{Destination: "/x", Type: "tmpfs", UIDMappings: make([]specs.LinuxIDMapping, 1)}}
		},
	} {
		config := specs.Spec{Version: "1.2.0", Root: &specs.Root{Path: "rootfs"}, Process: &specs.Process{Cwd: "/"}, Linux: &specs.Linux{}}
		change(&config)
		_, err := Read(write(t, config), 1000, 1000)
		assert.ErrorContains(t, err, want)
	}
	_, err := Read("docker://nvcr.io/nvidia/pytorch:24.05-py3", 1000, 1000)
	assert.ErrorContains(t, err, "--container-image=nvcr.io/nvidia/pytorch:24.05-py3")
	_, err = Read(t.TempDir(), 1000, 1000)
	assert.ErrorContains(t, err, "with config.json")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"ociVersion":"1.0.0","root":{"path":"rootfs"},"mounts":[{"destination":"../x","type":"tmpfs","options":["size="]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text, "/bundle", 1000, 1000)
		if err != nil {
			return
		}
		assert.True(t, filepath.IsAbs(c.Root))
		assert.True(t, filepath.IsAbs(c.Cwd))
		for _, m := range c.Mounts {
			assert.Equal(t, filepath.Clean(m.Target), m.Target)
			assert.True(t, filepath.IsAbs(m.Target))
		}
	})
}
