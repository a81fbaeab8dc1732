package bundle

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Mount is one of a bundle's mounts. The kinds that a user cannot mount are bound: they are the node's.
type Mount struct {
	// Field is the mount's place in config.json, for errors.
	Field string
	// Kind is Bind, Tmpfs, Proc or Queues.
	Kind   Kind
	Source string
	Target string
	// Set are attributes of the mount (MOUNT_ATTR_…), and of those below it.
	Set uint64
	// Propagation is MS_PRIVATE or its like, with MS_REC.
	Propagation uintptr
	// Data is for the file system, as in size=1g.
	Data []string
}

// Kind is what a mount is made of: a path of the node, memory, or what the kernel shows of processes and queues.
type Kind string

// The kinds of mounts. Proc is a new /proc where the container has process numbers of its own, and the node's else. Queues
// are the message queues of an IPC namespace, as Proc.
const (
	Bind   Kind = "bind"
	Tmpfs  Kind = "tmpfs"
	Proc   Kind = "proc"
	Queues Kind = "mqueue"
)

// attributes are the options that set one. Those without an effect are options that take one away, because the kernel keeps
// what the node's mount has, and those of access times.
var attributes = map[string]uint64{
	"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
	"nodiratime": unix.MOUNT_ATTR_NODIRATIME, "nosymfollow": unix.MOUNT_ATTR_NOSYMFOLLOW,
}

var without = []string{
	"rw", "suid", "dev", "exec", "atime", "noatime", "diratime", "symfollow", "relatime", "norelatime", "strictatime", "nostrictatime",
	"defaults", "async", "nomand", "noiversion", "rrw", "rsuid", "rdev", "rexec", "ratime", "rnoatime", "rdiratime", "rsymfollow",
	"rrelatime", "rstrictatime",
}

var propagations = map[string]uintptr{
	"private": unix.MS_PRIVATE, "rprivate": unix.MS_PRIVATE | unix.MS_REC,
	"slave": unix.MS_SLAVE, "rslave": unix.MS_SLAVE | unix.MS_REC,
	"shared": unix.MS_SHARED, "rshared": unix.MS_SHARED | unix.MS_REC,
	"unbindable": unix.MS_UNBINDABLE, "runbindable": unix.MS_UNBINDABLE | unix.MS_REC,
}

// tmpfsData are what tmpfs takes (tmpfs(5)). Its owner is the user, whatever uid= and gid= say.
var tmpfsData = []string{"size", "nr_blocks", "nr_inodes", "mode", "huge", "mpol"}

func (c *Container) addMounts(all []specs.Mount, dir string) error {
	for i, m := range all {
		one, err := parseMount(m, fmt.Sprintf("mounts[%d]", i), dir)
		if err != nil {
			return err
		}
		c.Mounts = append(c.Mounts, one)
	}
	return nil
}

func parseMount(m specs.Mount, field, dir string) (Mount, error) {
	one := Mount{Field: field, Target: path.Clean("/" + m.Destination), Source: m.Source, Kind: Bind}
	if m.Destination == "" || one.Target == "/" {
		return one, refuse(field+".destination", m.Destination, "an absolute path below the root")
	}
	if len(m.UIDMappings)+len(m.GIDMappings) > 0 {
		return one, fmt.Errorf("%s.uidMappings: want none: only a privilege maps the owners of a mount", field)
	}
	bound := slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
	switch {
	case bound || m.Type == "bind" || m.Type == "rbind":
		// with what is mounted below it, without which the kernel refuses it in a namespace of users
	case m.Type == "tmpfs":
		one.Kind = Tmpfs
	case m.Type == "proc":
		one.Kind, one.Source = Proc, "/proc"
	case m.Type == "mqueue":
		one.Kind, one.Source = Queues, "/dev/mqueue"
	case m.Type == "sysfs":
		one.Source = "/sys"
	case m.Type == "cgroup" || m.Type == "cgroup2":
		one.Source = "/sys/fs/cgroup"
	case m.Type == "devpts":
		one.Source = "/dev/pts"
	default:
		return one, refuse(field+".type", m.Type, "bind, tmpfs, proc, mqueue, sysfs, devpts or cgroup")
	}
	if one.Kind == Bind && one.Source == "" {
		return one, refuse(field+".source", "", "a path of the node")
	}
	if one.Kind == Bind && !filepath.IsAbs(one.Source) {
		one.Source = filepath.Join(dir, one.Source)
	}
	for n, option := range m.Options {
		if err := one.option(m.Type, option); err != nil {
			return one, fmt.Errorf("%s.options[%d]: %w", field, n, err)
		}
	}
	return one, nil
}

func (m *Mount) option(kind, option string) error {
	name, value, given := strings.Cut(option, "=")
	plain, _ := strings.CutPrefix(option, "r")
	if a, known := attributes[option]; known {
		m.Set |= a
		return nil
	}
	if a, known := attributes[plain]; known {
		m.Set |= a
		return nil
	}
	if p, known := propagations[option]; known {
		m.Propagation = p
		return nil
	}
	switch {
	case option == "bind", option == "rbind", slices.Contains(without, option):
		return nil
	case m.Kind == Tmpfs && value != "" && slices.Contains(tmpfsData, name):
		m.Data = append(m.Data, option)
		return nil
	case m.Kind == Tmpfs && (name == "uid" || name == "gid"):
		return nil
	case kind == "devpts" && given && slices.Contains([]string{"gid", "uid", "mode", "ptmxmode", "max"}, name),
		kind == "devpts" && option == "newinstance":
		return nil // the node's terminals are what Slurm gives a task
	}
	return fmt.Errorf("%q: want options of mount(8), and of tmpfs(5) for a tmpfs", option)
}

// resources are those of setrlimit(2), by their names in a bundle.
var resources = map[string]int{
	"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_CPU": unix.RLIMIT_CPU, "RLIMIT_DATA": unix.RLIMIT_DATA,
	"RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_LOCKS": unix.RLIMIT_LOCKS, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK,
	"RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE, "RLIMIT_NICE": unix.RLIMIT_NICE, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE,
	"RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_RSS": unix.RLIMIT_RSS, "RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO,
	"RLIMIT_RTTIME": unix.RLIMIT_RTTIME, "RLIMIT_SIGPENDING": unix.RLIMIT_SIGPENDING, "RLIMIT_STACK": unix.RLIMIT_STACK,
}

// Resource is the number of a limit's resource.
func (l Limit) Resource() int { return resources[l.Name] }
