package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// build makes the container's root in the mount namespace of this process, which is new, and leaves it at s.root.
func (s *Spec) build() (inside, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return inside{}, explain("cannot mount in a namespace of the job's own", err)
	}
	if err := unix.Mount("tmpfs", s.mountpoint(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return inside{}, explain("cannot mount a tmpfs on "+s.mountpoint(), err)
	}
	if err := os.Mkdir(s.root(), 0o755); err != nil {
		return inside{}, fmt.Errorf("cannot make the container's root: %w", err)
	}
	lower := s.Lower
	var squashfs *server
	if s.Squashfs {
		lower = filepath.Join(s.mountpoint(), "lower")
		var err error
		if squashfs, err = s.mountSquashfs(lower); err != nil {
			return inside{}, err
		}
	}
	in, err := s.fillOverlay(lower)
	squashfs.begun()
	return in, squashfs.explain(err)
}

func (s *Spec) fillOverlay(lower string) (inside, error) {
	if err := s.overlay(lower); err != nil {
		return inside{}, err
	}
	in, err := openInside(s.root())
	if err == nil {
		err = s.keepPlain(in)
	}
	if err == nil {
		err = s.fill(in)
	}
	if err == nil && !s.Writable {
		err = unix.MountSetattr(in.fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err != nil {
			err = fmt.Errorf("cannot make the container's root read-only: %w", err)
		}
	}
	return in, err
}

// overlay puts a layer over the image. What is written goes to memory, or to the directory of the container's name.
func (s Spec) overlay(lower string) error {
	layer := filepath.Join(s.mountpoint(), "layer")
	if s.Name != "" {
		layer = s.nameDir()
	}
	upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
	for _, dir := range []string{upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot make a layer over the image: %w", err)
		}
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", escaped(lower), escaped(upper), escaped(work))
	err := unix.Mount("overlay", s.root(), "overlay", unix.MS_NOSUID|unix.MS_NODEV, data)
	if errors.Is(err, unix.EINVAL) && s.Name != "" {
		return fmt.Errorf("cannot keep files in %s, which needs a volume there (not an overlay, as a pod's own root is): %w", layer, err)
	}
	if err != nil {
		return fmt.Errorf("cannot mount an overlay over %s: %w", s.Lower, err)
	}
	return nil
}

// keepPlain keeps the root without what is mounted into it, for a step that saves the container. It is below what is
// to become "/", where no task sees it.
func (s Spec) keepPlain(in inside) error {
	plain := s.plain()
	err := os.Mkdir(plain, 0o755)
	if err == nil {
		err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", in.fd), plain, "", unix.MS_BIND, "")
	}
	if err != nil {
		return fmt.Errorf("cannot keep the container's files for --container-save: %w", err)
	}
	return nil
}

// fill mounts what every container has, and then what the user wants, in the order of the options.
func (s *Spec) fill(in inside) error {
	for _, m := range []options.Mount{
		{Source: "/proc"},
		{Source: "/sys"},
		{Source: "/dev"},
		{Source: "/tmp"},
		{Source: "/etc/resolv.conf", Set: unix.MOUNT_ATTR_RDONLY, NoFail: true},
		{Source: "/etc/hosts", Set: unix.MOUNT_ATTR_RDONLY, NoFail: true},
		{Source: "/etc/hostname", Set: unix.MOUNT_ATTR_RDONLY, NoFail: true},
		{Source: s.MPI, NoFail: true},
		{Source: s.Script},
	} {
		if m.Source == "" {
			continue
		}
		m.Target, m.Create = m.Source, "auto"
		if err := s.mount(in, m); err != nil {
			return err
		}
	}
	if err := errors.Join(s.addSlurm(in), s.ownMemory(in), s.writeUsers(in), s.mountDriver(in)); err != nil {
		return err
	}
	switch {
	case s.MountHome:
		if err := s.mount(in, options.Mount{Source: s.Home, Target: s.home(), Create: "dir"}); err != nil {
			return fmt.Errorf("--container-mount-home: %w", err)
		}
	case s.home() != "":
		_ = in.make(s.home(), false) // an image that cannot have it does without
	}
	for _, m := range s.Mounts {
		if err := s.mount(in, m); err != nil {
			return fmt.Errorf("--container-mounts: %w", err)
		}
	}
	return nil
}

// ownMemory gives an IPC namespace of the container's own its shared memory and its message queues.
func (s Spec) ownMemory(in inside) error {
	if !slices.Contains(s.Unshare, "ipc") {
		return nil
	}
	err := s.mount(in, options.Mount{Source: options.Tmpfs, Target: "/dev/shm", Create: "dir", Data: []string{"mode=1777"}})
	if err == nil && in.has("/dev/mqueue") {
		var place string
		if place, err = in.place("/dev/mqueue", false); err == nil {
			err = unix.Mount("mqueue", place, "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("--container-unshare=ipc: %w", err)
	}
	return nil
}

func (s Spec) mount(in inside, m options.Mount) error {
	err := s.mountOne(in, m)
	if err != nil && m.NoFail {
		return nil
	}
	return err
}

func (s Spec) mountOne(in inside, m options.Mount) error {
	if m.Source == options.Umount {
		return s.unmount(in, m)
	}
	file := m.Create == "file"
	if m.Source != options.Tmpfs {
		info, err := os.Stat(m.Source)
		if err != nil {
			return fmt.Errorf("cannot mount it: %w", err)
		}
		file = file || m.Create == "auto" && !info.IsDir()
	}
	place, err := in.place(m.Target, file)
	if err != nil {
		return err
	}
	if m.Source == options.Tmpfs {
		err = unix.Mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, strings.Join(m.Data, ","))
	} else {
		err = unix.Mount(m.Source, place, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err == nil {
		err = attributes(in, m)
	}
	if err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", m.Source, m.Target, err)
	}
	return nil
}

// attributes are set on the mount, which its target leads to now. The kernel keeps what a mount of the node's has.
func attributes(in inside, m options.Mount) error {
	if m.Set|m.Clear == 0 && m.Propagation == 0 {
		return nil
	}
	fd, err := in.open(m.Target, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags := uint(unix.AT_EMPTY_PATH)
	if m.Set&unix.MOUNT_ATTR_RDONLY != 0 {
		flags |= unix.AT_RECURSIVE
	}
	attr := &unix.MountAttr{Attr_set: m.Set, Attr_clr: m.Clear}
	if m.Propagation != 0 {
		attr.Propagation = uint64(m.Propagation &^ unix.MS_REC)
		if m.Propagation&unix.MS_REC != 0 {
			flags |= unix.AT_RECURSIVE
		}
	}
	err = unix.MountSetattr(fd, "", flags, attr)
	if errors.Is(err, unix.EPERM) && m.Clear != 0 {
		return fmt.Errorf("the node's own mount has what the flags take away: %w", err)
	}
	return err
}

func (s Spec) unmount(in inside, m options.Mount) error {
	fd, err := in.open(m.Target, unix.O_PATH)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", fd), unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("cannot unmount %s: %w", m.Target, err)
	}
	return nil
}

// writeUsers gives the image the names of the job's user and group, if it has others or none.
func (s Spec) writeUsers(in inside) error {
	uid, gid := s.UID, s.GID
	name := s.User
	if s.RemapRoot {
		uid, gid, name = 0, 0, "root"
	}
	for _, f := range []struct{ path, id, line string }{
		{"/etc/passwd", fmt.Sprintf(":%d:", uid), fmt.Sprintf("%s:x:%d:%d:%s:%s:/bin/sh\n", name, uid, gid, name, s.home())},
		{"/etc/group", fmt.Sprintf(":%d:", gid), fmt.Sprintf("%s:x:%d:\n", name, gid)},
	} {
		text, more := in.read(f.path), ""
		if !hasID(text, f.id) && name != "" && s.home() != "" {
			more = f.line
		}
		if f.path == "/etc/passwd" && s.hasSlurm {
			more += daemonLine(text)
		}
		if more == "" {
			continue
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		own := filepath.Join(s.mountpoint(), filepath.Base(f.path))
		if err := os.WriteFile(own, []byte(text+more), 0o644); err != nil {
			return fmt.Errorf("cannot write %s: %w", f.path, err)
		}
		// an image whose /etc cannot be written does without, as one of another user's directories is
		if err := s.mount(in, options.Mount{Source: own, Target: f.path, Create: "file", NoFail: true}); err != nil {
			return err
		}
	}
	return nil
}

// hasID looks for ":1000:" as the third field of a line.
func hasID(text, id string) bool {
	for line := range strings.Lines(text) {
		if fields := strings.SplitN(line, ":", 4); len(fields) == 4 && ":"+fields[2]+":" == id {
			return true
		}
	}
	return false
}
