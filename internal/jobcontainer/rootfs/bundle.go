package rootfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/bundle"
)

// Bundled is the argument with which the program becomes a task of `srun --container`, in namespaces of its own.
const Bundled = "bundled"

// The files of a bundled task, besides its own three.
const (
	planFD   = 3
	reportFD = 4
)

// plan is what a bundled task is told by the one before it, which has read the bundle.
type plan struct {
	Container bundle.Container
	// Store is the node's directory for containers, of which mnt is an empty one.
	Store string
	// Script says that the command is a batch script of the node's. MPI is a directory of PMIx' server, which the container
	// has, too; empty: there is none.
	Script bool
	MPI    string
	// Args and Env are the step's.
	Args, Env []string
}

// errNoProc is the kernel's refusal of a new /proc, where parts of the node's are masked.
var errNoProc = errors.New("the kernel refuses a new /proc")

// RunBundled is a bundled task: it makes the container of a bundle around itself, and becomes the step's program. It
// returns where it is the first process of the container's, which waits for the program.
func RunBundled() (int, error) {
	unix.CloseOnExec(planFD)
	unix.CloseOnExec(reportFD)
	var p plan
	if err := json.NewDecoder(os.NewFile(planFD, "plan")).Decode(&p); err != nil {
		return 0, fmt.Errorf("cannot read what to run: %w", err)
	}
	report := os.NewFile(reportFD, "report")
	if p.Container.Has("pid") {
		if err := become("slurmstepd"); err != nil {
			return 0, err
		}
	}
	if err := p.enter(); err != nil {
		if errors.Is(err, errNoProc) {
			_, err = fmt.Fprintln(report, reportNoProc)
			return 1, err
		}
		return 0, err
	}
	if err := p.limit(); err != nil {
		return 0, err
	}
	program, err := p.program()
	if err != nil {
		return exitMissing, err
	}
	if p.Container.Has("pid") {
		return p.waitFor(program, report)
	}
	err = unix.Exec(program, p.Args, p.Env)
	return exitUnable, fmt.Errorf("cannot run %s in the container: %w", program, err)
}

// enter makes the container's root this process'.
func (p *plan) enter() error {
	c := p.Container
	if err := p.names(); err != nil {
		return err
	}
	in, err := p.build()
	if err != nil {
		return err
	}
	if c.ReadOnly {
		if err := unix.MountSetattr(in.fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("root.readonly: %w", err)
		}
	}
	// The runtimes' seccomp profiles refuse pivot_root(2) and chroot(2). This thread is the one that becomes the program.
	own, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Chdir(p.root())
	}
	if err == nil {
		err = unix.Mount(".", "/", "", unix.MS_MOVE, "")
	}
	if err == nil {
		err = unix.Unshare(unix.CLONE_FS)
	}
	if err == nil {
		err = unix.Setns(own, unix.CLONE_NEWNS)
	}
	if err != nil {
		return fmt.Errorf("cannot make root.path the container's root: %w", err)
	}
	if err := unix.Chdir(c.Cwd); err != nil {
		return fmt.Errorf("process.cwd: %q: %w", c.Cwd, err)
	}
	return nil
}

func (p *plan) mountpoint() string { return filepath.Join(p.Store, "mnt") }

func (p *plan) root() string { return filepath.Join(p.mountpoint(), "root") }

func (p *plan) names() error {
	c := p.Container
	if c.Has("net") {
		if err := raiseLoopback(); err != nil {
			return fmt.Errorf("linux.namespaces: network: cannot raise the loopback: %w", err)
		}
	}
	if c.Hostname != "" {
		if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
			return fmt.Errorf("hostname: %q: %w", c.Hostname, err)
		}
	}
	if c.Domainname != "" {
		if err := unix.Setdomainname([]byte(c.Domainname)); err != nil {
			return fmt.Errorf("domainname: %q: %w", c.Domainname, err)
		}
	}
	return nil
}

// build mounts the bundle's root and all that belongs into it, in a mount namespace that is new.
func (p *plan) build() (inside, error) {
	c := p.Container
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return inside{}, explain("cannot mount in a namespace of the job's own", err)
	}
	if err := unix.Mount("tmpfs", p.mountpoint(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return inside{}, explain("cannot mount a tmpfs on "+p.mountpoint(), err)
	}
	err := os.Mkdir(p.root(), 0o755)
	if err == nil {
		err = p.mountRoot()
	}
	if err != nil {
		return inside{}, fmt.Errorf("root.path: cannot mount %s: %w", c.Root, err)
	}
	in, err := openInside(p.root())
	if err != nil {
		return inside{}, err
	}
	if !slices.ContainsFunc(c.Mounts, func(m bundle.Mount) bool { return m.Target == "/dev" }) {
		c.Mounts = slices.Insert(c.Mounts, 0, bundle.Mount{Field: "mounts", Kind: bundle.Bind, Source: "/dev", Target: "/dev"})
	}
	for _, m := range c.Mounts {
		if err := p.mount(in, m); err != nil {
			return inside{}, fmt.Errorf("%s: cannot mount %s on %s: %w", m.Field, m.Source, m.Target, err)
		}
	}
	if err := p.share(in); err != nil {
		return inside{}, err
	}
	for i, path := range c.Devices {
		if err := bindDevice(in, path); err != nil {
			return inside{}, fmt.Errorf("linux.devices[%d].path: %q: %w", i, path, err)
		}
	}
	return in, p.hide(in)
}

// mountRoot binds the bundle's root. Over one that the user cannot write there is a layer in memory, for targets of mounts,
// unless the kernel refuses it over what is mounted below.
func (p *plan) mountRoot() error {
	root := p.Container.Root
	if unix.Faccessat(unix.AT_FDCWD, root, unix.W_OK, unix.AT_EACCESS) != nil {
		upper, work := filepath.Join(p.mountpoint(), "upper"), filepath.Join(p.mountpoint(), "work")
		data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", escaped(root), escaped(upper), escaped(work))
		if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
			return err
		}
		if unix.Mount("overlay", p.root(), "overlay", unix.MS_NOSUID|unix.MS_NODEV, data) == nil {
			return nil
		}
	}
	return unix.Mount(root, p.root(), "", unix.MS_BIND|unix.MS_REC, "")
}

// ownScript is a batch script where its path of the node's cannot be made in the container.
const ownScript = "/.slurmlet/script"

// share has the node's batch script in the container, and the directory of PMIx' server where it can be made.
func (p *plan) share(in inside) error {
	if p.MPI != "" {
		_ = bindSame(in, p.MPI) // who needs it says so
	}
	if !p.Script {
		return nil
	}
	script := p.Args[0]
	err := bindSame(in, script)
	if err == nil {
		return nil
	}
	if place, failed := in.place(ownScript, true); failed == nil {
		p.Args[0] = ownScript
		err = unix.Mount(script, place, "", unix.MS_BIND, "")
	}
	if err != nil {
		return fmt.Errorf("cannot have the batch script %s in the container: %w", script, err)
	}
	return nil
}

// mount mounts one of the bundle's.
func (p *plan) mount(in inside, m bundle.Mount) error {
	file := false
	if m.Kind == bundle.Bind {
		info, err := os.Stat(m.Source)
		if err != nil {
			return err
		}
		file = !info.IsDir()
	}
	place, err := in.place(m.Target, file)
	if err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	switch {
	case m.Kind == bundle.Tmpfs:
		err = unix.Mount("tmpfs", place, "tmpfs", flags, strings.Join(m.Data, ","))
	case m.Kind == bundle.Proc && p.Container.Has("pid"):
		if err = unix.Mount("proc", place, "proc", flags|unix.MS_NOEXEC, ""); errors.Is(err, unix.EPERM) {
			return errNoProc
		}
	case m.Kind == bundle.Queues && p.Container.Has("ipc"):
		err = unix.Mount("mqueue", place, "mqueue", flags|unix.MS_NOEXEC, "")
	default:
		err = unix.Mount(m.Source, place, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return err
	}
	if m.Kind == bundle.Tmpfs && m.Target == "/dev" {
		if err := fillDev(in); err != nil {
			return err
		}
	}
	return setAttributes(in, m)
}

// setAttributes sets a mount's, which its target leads to now.
func setAttributes(in inside, m bundle.Mount) error {
	if m.Set == 0 && m.Propagation == 0 {
		return nil
	}
	fd, err := in.open(m.Target, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	attr := &unix.MountAttr{Attr_set: m.Set, Propagation: uint64(m.Propagation &^ unix.MS_REC)}
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr)
}

// fillDev puts into a bundle's own /dev what each container has there (the runtime specification's default devices).
func fillDev(in inside) error {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bindSame(in, "/dev/"+name); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	dev, err := in.open("/dev", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	for _, link := range [][2]string{
		{"pts/ptmx", "ptmx"},
		{"/proc/self/fd", "fd"},
		{"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"},
	} {
		if err := unix.Symlinkat(link[0], dev, link[1]); err != nil {
			return fmt.Errorf("/dev/%s: %w", link[1], err)
		}
	}
	return nil
}

// bindSame has a path of the node in the container, under the same name.
func bindSame(in inside, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	place, err := in.place(path, !info.IsDir())
	if err != nil {
		return err
	}
	return unix.Mount(path, place, "", unix.MS_BIND|unix.MS_REC, "")
}

func bindDevice(in inside, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("want a device that the node has: %w", err)
	}
	if info.Mode()&os.ModeDevice == 0 {
		return errors.New("want a device")
	}
	return bindSame(in, path)
}

// hide masks the bundle's masked paths, and protects those that are to be read alone. What is missing needs neither.
func (p *plan) hide(in inside) error {
	for i, path := range p.Container.Masked {
		if err := mask(in, path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("linux.maskedPaths[%d]: cannot mask %s: %w", i, path, err)
		}
	}
	for i, path := range p.Container.Protected {
		fd, err := in.open(path, unix.O_PATH)
		if err == nil {
			place := fmt.Sprintf("/proc/self/fd/%d", fd)
			err = unix.Mount(place, place, "", unix.MS_BIND|unix.MS_REC, "")
			_ = unix.Close(fd)
		}
		if err == nil {
			err = setAttributes(in, bundle.Mount{Target: path, Set: unix.MOUNT_ATTR_RDONLY})
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("linux.readonlyPaths[%d]: cannot protect %s: %w", i, path, err)
		}
	}
	return nil
}

func mask(in inside, path string) error {
	fd, err := in.open(path, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	place := fmt.Sprintf("/proc/self/fd/%d", fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.Mount("tmpfs", place, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	return unix.Mount(os.DevNull, place, "", unix.MS_BIND, "")
}

// limit sets what the program is to have besides its root, and takes the rights away that this process has made that with.
func (p *plan) limit() error {
	c := p.Container
	for i, l := range c.Limits {
		if err := syscall.Setrlimit(l.Resource(), &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			var has syscall.Rlimit
			_ = syscall.Getrlimit(l.Resource(), &has)
			return fmt.Errorf("process.rlimits[%d].hard: %s: %d: want at most the job's, which is %d: %w", i, l.Name, l.Hard, has.Max, err)
		}
	}
	if c.OOMScore != nil {
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(*c.OOMScore)), 0); err != nil {
			return fmt.Errorf("process.oomScoreAdj: %d: want no less than the job's: %w", *c.OOMScore, err)
		}
	}
	if c.Umask != nil {
		unix.Umask(int(*c.Umask))
	}
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err == nil && c.NoNewPrivileges {
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot leave rights: %w", err)
	}
	return nil
}

// program finds the step's program in the container.
func (p *plan) program() (string, error) {
	name := p.Args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, entry := range p.Env {
		if value, is := strings.CutPrefix(entry, "PATH="); is {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(dir) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("the container has no %s in PATH=%s", name, path)
}
