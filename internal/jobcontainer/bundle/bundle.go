// Package bundle reads the OCI bundles of `srun --container`: config.json as the OCI runtime specification has it, and of
// it what a user without a privilege can have. What cannot be had is refused by its field.
package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Container is a bundle's container, as a user can have it. Its command is the step's.
type Container struct {
	// Root is the root file system, an absolute path of the node.
	Root     string
	ReadOnly bool
	Mounts   []Mount
	// Devices are paths of the node's devices.
	Devices []string
	// Masked are paths that show nothing, and Protected those that cannot be written.
	Masked, Protected []string

	// UID and GID are the user's and the group's in the container.
	UID, GID int
	// Namespaces are those besides the user's and the mounts': "ipc", "net", "pid", "uts" and "cgroup".
	Namespaces           []string
	Hostname, Domainname string

	Env             []string
	Cwd             string
	Umask           *uint32
	Limits          []Limit
	NoNewPrivileges bool
	OOMScore        *int
}

// Limit is a limit of the process' resources (setrlimit(2)).
type Limit struct {
	Name       string
	Soft, Hard uint64
}

// mostConfig is how large a config.json may be.
const mostConfig = 4 << 20

// Read reads the bundle of a directory for a user.
func Read(dir string, uid, gid int) (Container, error) {
	if strings.Contains(dir, "://") {
		name := dir[strings.Index(dir, "://")+3:]
		return Container{}, fmt.Errorf("--container=%s: want the directory of an OCI bundle, with config.json; for an image: "+
			"--container-image=%s", dir, name)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Container{}, fmt.Errorf("--container: %w", err)
	}
	file := filepath.Join(dir, "config.json")
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Container{}, fmt.Errorf("--container=%s: want the directory of an OCI bundle, with config.json; a directory that is a "+
			"root file system is --container-image=%s: %w", dir, dir, err)
	case err != nil:
		return Container{}, fmt.Errorf("--container=%s: %w", dir, err)
	case !info.Mode().IsRegular() || info.Size() > mostConfig:
		return Container{}, fmt.Errorf("%s: want a file of at most %d bytes", file, mostConfig)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Container{}, fmt.Errorf("--container=%s: %w", dir, err)
	}
	c, err := parse(text, dir, uid, gid)
	if err != nil {
		return Container{}, fmt.Errorf("%s: %w", file, err)
	}
	if info, err = os.Stat(c.Root); err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		return Container{}, fmt.Errorf("%s: root.path: %q: want a directory: %w", file, c.Root, err)
	}
	return c, nil
}

// parse reads a config.json and refuses what a user cannot have.
func parse(text []byte, dir string, uid, gid int) (Container, error) {
	var config specs.Spec
	if err := json.Unmarshal(text, &config); err != nil {
		return Container{}, fmt.Errorf("it is no configuration of an OCI bundle: %w", err)
	}
	if !strings.HasPrefix(config.Version, "1.") {
		return Container{}, refuse("ociVersion", config.Version, "1.x")
	}
	if config.Root == nil || config.Root.Path == "" {
		return Container{}, refuse("root.path", "", "a directory")
	}
	c := Container{Root: config.Root.Path, ReadOnly: config.Root.Readonly, UID: uid, GID: gid, Cwd: "/"}
	if !filepath.IsAbs(c.Root) {
		c.Root = filepath.Join(dir, c.Root)
	}
	if config.Process != nil {
		c.Env, c.NoNewPrivileges, c.OOMScore = config.Process.Env, config.Process.NoNewPrivileges, config.Process.OOMScoreAdj
		c.Umask = config.Process.User.Umask
		c.UID, c.GID = int(config.Process.User.UID), int(config.Process.User.GID)
	}
	linux := config.Linux
	if linux == nil {
		linux = &specs.Linux{}
	}
	c.Masked, c.Protected = linux.MaskedPaths, linux.ReadonlyPaths
	for _, step := range []func() error{
		func() error { return unsupported(config, linux) },
		func() error { return c.process(config.Process) },
		func() error { return c.mapped(linux, uid, gid) },
		func() error { return c.namespaces(linux.Namespaces) },
		func() error { return c.names(config) },
		func() error { return c.addMounts(config.Mounts, dir) },
		func() error { return c.devices(linux.Devices) },
		func() error { return inside("linux.maskedPaths", c.Masked) },
		func() error { return inside("linux.readonlyPaths", c.Protected) },
	} {
		if err := step(); err != nil {
			return Container{}, err
		}
	}
	return c, nil
}

// refuse names a field, its value and what is allowed.
func refuse(field, value, allowed string) error {
	return fmt.Errorf("%s: %q: want %s", field, value, allowed)
}

// unsupported refuses what only a privilege gives, and what would be another meaning if it were left out. Limits of
// cgroups (linux.resources, linux.cgroupsPath) are Slurm's, and capabilities are those of the user's own namespace.
func unsupported(config specs.Spec, linux *specs.Linux) error {
	if hooks := config.Hooks; hooks != nil {
		for _, h := range []struct {
			name string
			all  []specs.Hook
		}{
			{"prestart", hooks.Prestart}, //nolint:staticcheck // bundles have it still
			{"createRuntime", hooks.CreateRuntime},
			{"createContainer", hooks.CreateContainer},
			{"startContainer", hooks.StartContainer},
			{"poststart", hooks.Poststart},
			{"poststop", hooks.Poststop},
		} {
			if len(h.all) > 0 {
				return refuse("hooks."+h.name, h.all[0].Path, "none: no program runs outside of the container")
			}
		}
	}
	const none = "none"
	for _, f := range []struct {
		field   string
		is      bool
		allowed string
	}{
		{"vm", config.VM != nil, none},
		{"windows", config.Windows != nil, none},
		{"solaris", config.Solaris != nil, none},
		{"zos", config.ZOS != nil, none},
		{"freebsd", config.FreeBSD != nil, none},
		{"linux.seccomp", linux.Seccomp != nil, "none: the filter of the node's pod holds"},
		{"linux.sysctl", len(linux.Sysctl) > 0, "none: the node's hold"},
		{"linux.netDevices", len(linux.NetDevices) > 0, none},
		{"linux.mountLabel", linux.MountLabel != "", none},
		{"linux.intelRdt", linux.IntelRdt != nil, none},
		{"linux.memoryPolicy", linux.MemoryPolicy != nil, "none: srun --mem-bind has it"},
		{"linux.personality", linux.Personality != nil && linux.Personality.Domain != specs.PerLinux, none},
		{"linux.timeOffsets", len(linux.TimeOffsets) > 0, none},
	} {
		if f.is {
			return fmt.Errorf("%s: want %s", f.field, f.allowed)
		}
	}
	if p := linux.RootfsPropagation; !slices.Contains([]string{"", "private", "rprivate", "slave", "rslave"}, p) {
		return refuse("linux.rootfsPropagation", p, "private, rprivate, slave or rslave")
	}
	return nil
}

// process refuses what a step's process does not take from a bundle.
func (c *Container) process(p *specs.Process) error {
	if p == nil {
		return nil
	}
	for _, f := range []struct {
		field   string
		is      bool
		allowed string
	}{
		{"process.commandLine", p.CommandLine != "", "none"},
		{"process.user.username", p.User.Username != "", "a uid"},
		{"process.apparmorProfile", p.ApparmorProfile != "", "none: that of the node's pod holds"},
		{"process.selinuxLabel", p.SelinuxLabel != "", "none: that of the node's pod holds"},
		{"process.scheduler", p.Scheduler != nil, "none: Slurm sets it"},
		{"process.ioPriority", p.IOPriority != nil, "none"},
		{"process.execCPUAffinity", p.ExecCPUAffinity != nil, "none: Slurm sets it"},
	} {
		if f.is {
			return fmt.Errorf("%s: want %s", f.field, f.allowed)
		}
	}
	if i := slices.IndexFunc(p.User.AdditionalGids, func(gid uint32) bool { return gid != p.User.GID }); i >= 0 {
		return refuse(fmt.Sprintf("process.user.additionalGids[%d]", i), fmt.Sprint(p.User.AdditionalGids[i]),
			"none: a user without a privilege maps one group")
	}
	if p.Cwd != "" {
		if !path.IsAbs(p.Cwd) {
			return refuse("process.cwd", p.Cwd, "an absolute path")
		}
		c.Cwd = p.Cwd
	}
	for i, entry := range p.Env {
		if name, _, found := strings.Cut(entry, "="); !found || name == "" || strings.ContainsRune(entry, 0) {
			return refuse(fmt.Sprintf("process.env[%d]", i), entry, "NAME=value")
		}
	}
	for i, l := range p.Rlimits {
		field := fmt.Sprintf("process.rlimits[%d]", i)
		if _, known := resources[l.Type]; !known {
			return refuse(field+".type", l.Type, "a resource of setrlimit(2), as in RLIMIT_NOFILE")
		}
		if l.Soft > l.Hard {
			return refuse(field+".soft", fmt.Sprint(l.Soft), fmt.Sprintf("at most hard, which is %d", l.Hard))
		}
		c.Limits = append(c.Limits, Limit{l.Type, l.Soft, l.Hard})
	}
	return nil
}

// mapped refuses any user and group but one's own. What the container calls them is the bundle's to say.
func (c *Container) mapped(linux *specs.Linux, uid, gid int) error {
	for _, m := range []struct {
		field        string
		all          []specs.LinuxIDMapping
		inside, host int
		process      string
		whose        string
	}{
		{"linux.uidMappings", linux.UIDMappings, c.UID, uid, "process.user.uid", "user"},
		{"linux.gidMappings", linux.GIDMappings, c.GID, gid, "process.user.gid", "group"},
	} {
		if len(m.all) > 1 {
			return refuse(m.field, fmt.Sprintf("%d mappings", len(m.all)), "one, because a user without a privilege maps one "+m.whose)
		}
		for _, one := range m.all {
			if one.Size != 1 {
				return refuse(m.field+"[0].size", fmt.Sprint(one.Size), "1, because a user without a privilege maps one "+m.whose)
			}
			if int(one.HostID) != m.host {
				return refuse(m.field+"[0].hostID", fmt.Sprint(one.HostID), fmt.Sprintf("the job's %s, which is %d", m.whose, m.host))
			}
			if int(one.ContainerID) != m.inside {
				return refuse(m.process, fmt.Sprint(m.inside), fmt.Sprintf("%d, which %s has", one.ContainerID, m.field))
			}
		}
	}
	return nil
}

func (c *Container) namespaces(all []specs.LinuxNamespace) error {
	for i, n := range all {
		field := fmt.Sprintf("linux.namespaces[%d]", i)
		if n.Path != "" {
			return refuse(field+".path", n.Path, "none: a step's container has namespaces of its own")
		}
		switch n.Type {
		case specs.UserNamespace, specs.MountNamespace:
		case specs.NetworkNamespace:
			c.Namespaces = append(c.Namespaces, "net")
		case specs.IPCNamespace, specs.UTSNamespace, specs.PIDNamespace, specs.CgroupNamespace:
			c.Namespaces = append(c.Namespaces, string(n.Type))
		default:
			return refuse(field+".type", string(n.Type), "user, mount, pid, network, ipc, uts or cgroup")
		}
	}
	slices.Sort(c.Namespaces)
	c.Namespaces = slices.Compact(c.Namespaces)
	return nil
}

// Has says whether the container has a namespace of its own.
func (c Container) Has(namespace string) bool { return slices.Contains(c.Namespaces, namespace) }

func (c *Container) names(config specs.Spec) error {
	c.Hostname, c.Domainname = config.Hostname, config.Domainname
	for field, value := range map[string]string{"hostname": c.Hostname, "domainname": c.Domainname} {
		if value != "" && !c.Has("uts") {
			return refuse(field, value, "none, or uts in linux.namespaces")
		}
	}
	return nil
}

// devices are the node's own, which are bound: a user makes none.
func (c *Container) devices(all []specs.LinuxDevice) error {
	for i, d := range all {
		if !strings.HasPrefix(d.Path, "/dev/") || path.Clean(d.Path) != d.Path {
			return refuse(fmt.Sprintf("linux.devices[%d].path", i), d.Path, "a device of the node's /dev")
		}
		c.Devices = append(c.Devices, d.Path)
	}
	return nil
}

// inside refuses paths that are not absolute.
func inside(field string, all []string) error {
	for i, p := range all {
		if !path.IsAbs(p) {
			return refuse(fmt.Sprintf("%s[%d]", field, i), p, "an absolute path")
		}
	}
	return nil
}
