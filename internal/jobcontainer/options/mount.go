package options

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is one of --container-mounts.
type Mount struct {
	// Source is a path of the node, "tmpfs", or "umount".
	Source, Target string
	// Create says what is made where the target is missing: "dir", "file", "auto" (as the source is), or "": nothing.
	Create string
	// NoFail leaves the mount out where it fails.
	NoFail bool
	// Set and Clear are attributes of the mount (MOUNT_ATTR_…), and Propagation is MS_PRIVATE or its like, with MS_REC.
	Set, Clear  uint64
	Propagation uintptr
	// Data is for the file system, as in size=1g.
	Data []string
}

// The sources that are no paths.
const (
	Tmpfs  = "tmpfs"
	Umount = "umount"
)

// attributes are the words of mount(8) that set and clear attributes of a mount.
var attributes = map[string]struct{ set, clear uint64 }{
	"ro": {unix.MOUNT_ATTR_RDONLY, 0}, "rw": {0, unix.MOUNT_ATTR_RDONLY},
	"nosuid": {unix.MOUNT_ATTR_NOSUID, 0}, "suid": {0, unix.MOUNT_ATTR_NOSUID},
	"nodev": {unix.MOUNT_ATTR_NODEV, 0}, "dev": {0, unix.MOUNT_ATTR_NODEV},
	"noexec": {unix.MOUNT_ATTR_NOEXEC, 0}, "exec": {0, unix.MOUNT_ATTR_NOEXEC},
	"noatime": {unix.MOUNT_ATTR_NOATIME, 0}, "nodiratime": {unix.MOUNT_ATTR_NODIRATIME, 0},
	"nosymfollow": {unix.MOUNT_ATTR_NOSYMFOLLOW, 0},
	"relatime":    {0, 0}, "defaults": {0, 0}, "silent": {0, 0}, "async": {0, 0}, "auto": {0, 0}, "nouser": {0, 0},
}

var propagations = map[string]uintptr{
	"private": unix.MS_PRIVATE, "rprivate": unix.MS_PRIVATE | unix.MS_REC,
	"slave": unix.MS_SLAVE, "rslave": unix.MS_SLAVE | unix.MS_REC,
	"shared": unix.MS_SHARED, "rshared": unix.MS_SHARED | unix.MS_REC,
	"unbindable": unix.MS_UNBINDABLE, "runbindable": unix.MS_UNBINDABLE | unix.MS_REC,
}

// tmpfsData are what tmpfs itself takes (tmpfs(5)).
var tmpfsData = []string{"size", "nr_blocks", "nr_inodes", "mode", "uid", "gid", "huge", "mpol"}

// ParseMount reads SRC[:DST[:FLAGS]], whose flags are separated by + or by commas. A word that is no flag is an error:
// the kernel would ignore it on a bind mount, and a mistyped "ro" would be writable.
func ParseMount(text string) (Mount, error) {
	wrong := func(why string) (Mount, error) { return Mount{}, fmt.Errorf("mount %q: %s", text, why) }
	fields := strings.SplitN(text, ":", 3)
	m := Mount{Source: fields[0], Target: fields[0], Create: "auto"}
	if strings.ContainsRune(text, 0) {
		return wrong("it has a NUL")
	}
	if len(fields) > 1 {
		m.Target = fields[1]
	}
	switch {
	case m.Source == Tmpfs:
		m.Create = "dir"
	case m.Source == Umount:
		m.Create = ""
	case !strings.HasPrefix(m.Source, "/") && !strings.HasPrefix(m.Source, "."):
		return wrong("want a source that is a path with / or . at its beginning, tmpfs, or umount")
	}
	if !strings.HasPrefix(m.Target, "/") && !strings.HasPrefix(m.Target, ".") {
		return wrong("want a target with / or . at its beginning")
	}
	if to := path.Clean(m.Target); to == ".." || strings.HasPrefix(to, "../") {
		return wrong("its target leads out of the container")
	}
	if len(fields) < 3 || fields[2] == "" {
		return m, nil
	}
	for _, word := range strings.FieldsFunc(fields[2], func(r rune) bool { return r == '+' || r == ',' }) {
		if err := m.flag(word); err != nil {
			return wrong(err.Error())
		}
	}
	return m, nil
}

func (m *Mount) flag(word string) error {
	name, value, _ := strings.Cut(word, "=")
	if a, known := attributes[word]; known {
		m.Set, m.Clear = m.Set&^a.clear|a.set, m.Clear&^a.set|a.clear
		return nil
	}
	if p, known := propagations[word]; known {
		m.Propagation = p
		return nil
	}
	switch {
	// The mounts below a source always come, too: the kernel refuses a namespace of users the source without them.
	case word == "bind", word == "rbind", word == "x-detach" && m.Source == Umount:
	case word == "nofail":
		m.NoFail = true
	case name == "x-create" && slices.Contains([]string{"dir", "file", "auto"}, value):
		m.Create = value
	case m.Source == Tmpfs && value != "" && slices.Contains(tmpfsData, name):
		m.Data = append(m.Data, word)
	default:
		return fmt.Errorf("%q is no flag that slurmlet knows", word)
	}
	return nil
}
