package privatedirs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Hold is the argument with which the program becomes a holder.
const Hold = "hold-private"

// The files of a holder.
const (
	replyFD    = 3
	lifelineFD = 4
	lockFD     = 5
)

// start runs this program as the holder, and writes down who it is.
func (s Spec) start(lifeline, lock *os.File) error {
	attr, kinds, err := s.namespaces()
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("cannot make the job's namespaces: %w", err)
	}
	answer, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make the job's namespaces: %w", err)
	}
	defer answer.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot make the job's namespaces: %w", err)
	}
	cmd := exec.Command(self, Hold)
	said := &strings.Builder{}
	complaints, complain, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make the job's namespaces: %w", err)
	}
	defer complaints.Close()
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), complain
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{write, lifeline, lock}, attr
	err = cmd.Start()
	_ = write.Close()
	_ = complain.Close()
	if err != nil {
		return explain(err)
	}
	reply, err := io.ReadAll(answer)
	if err == nil && len(reply) == 0 {
		_, _ = io.Copy(said, complaints)
		_ = cmd.Wait() // it has said why
		return errors.New(strings.TrimPrefix(strings.TrimSpace(said.String()), "slurmlet: "))
	}
	if err != nil {
		return fmt.Errorf("cannot make the job's namespaces: %w", err)
	}
	return s.write(holderFile, fmt.Sprintf("%d %s\n", cmd.Process.Pid, kinds))
}

// namespaces are those that the holder is started in, and their kinds in the order in which tasks enter them. Root with
// CAP_SYS_ADMIN needs no namespace of users. Other root makes one where each user is who he is outside, so that files
// have their owners and groups hold; it belongs to root, so no user has a capability in it.
func (s Spec) namespaces() (*syscall.SysProcAttr, string, error) {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setsid: true, Pdeathsig: unix.SIGKILL}
	kinds := "mnt"
	if s.Processes {
		attr.Cloneflags |= unix.CLONE_NEWPID
		kinds = "mnt pid"
	}
	if lacking(unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT) == "" {
		return attr, kinds, nil
	}
	if names := lacking(unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETFCAP); names != "" {
		return nil, "", fmt.Errorf("slurmd lacks %s (the chart gives it where jobContainers.privateDirs is set), with which it makes "+
			"a job's namespace; CAP_SYS_ADMIN and CAP_SYS_CHROOT would do, too", names)
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.GidMappingsEnableSetgroups = true
	var err error
	if attr.UidMappings, err = identity("/proc/self/uid_map"); err == nil {
		attr.GidMappings, err = identity("/proc/self/gid_map")
	}
	return attr, "user " + kinds, err
}

// identity maps all ids that there are to themselves.
func identity(path string) ([]syscall.SysProcIDMap, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read which ids there are: %w", err)
	}
	var all []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var first, outside, size int
		if _, err := fmt.Sscan(line, &first, &outside, &size); err != nil {
			return nil, fmt.Errorf("cannot read which ids there are: %s: %w", path, err)
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: size})
	}
	return all, nil
}

// lacking names those of some capabilities that this process does not have.
func lacking(capabilities ...int) string {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err.Error()
	}
	names := map[int]string{
		unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN", unix.CAP_SYS_CHROOT: "CAP_SYS_CHROOT",
		unix.CAP_SETUID: "CAP_SETUID", unix.CAP_SETGID: "CAP_SETGID", unix.CAP_SETFCAP: "CAP_SETFCAP",
	}
	var all []string
	for _, c := range capabilities {
		if data[c/32].Effective&(1<<(c%32)) == 0 {
			all = append(all, names[c])
		}
	}
	return strings.Join(all, ", ")
}

// explain names what forbids a namespace on this node.
func explain(err error) error {
	const what = "cannot make a namespace for the job's own directories"
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%s: the machine allows no more user namespaces (sysctl user.max_user_namespaces): %w", what, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: the pod's seccomp profile forbids it: the chart's jobContainers.seccompProfile allows it, and so does "+
			"cgroup.access=capability: %w", what, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: AppArmor or another security module forbids it (the chart's jobContainers.appArmorProfile): %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// RunHolder is the holder: it mounts the job's directories, says so, and keeps them until its lifeline is closed. It must
// be called on the main thread.
func RunHolder() error {
	for fd := replyFD; fd <= lockFD; fd++ {
		unix.CloseOnExec(fd)
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGPIPE, syscall.SIGCHLD) // of a job's processes, those without a parent are its children where it is their init
	var s Spec
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return fmt.Errorf("cannot read what to hold: %w", err)
	}
	if err := s.mount(); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot leave the step's output: %w", err)
	}
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return fmt.Errorf("cannot leave the step's output: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot outlive the start: %w", err)
	}
	reply, lifeline := os.NewFile(replyFD, "reply"), os.NewFile(lifelineFD, "lifeline")
	if _, err := reply.WriteString("OK"); err != nil {
		return fmt.Errorf("cannot answer: %w", err)
	}
	_ = reply.Close()
	_, _ = io.Copy(io.Discard, lifeline) // until its other end is closed
	_ = os.RemoveAll(s.State)
	return nil
}

func (s Spec) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return explain(err)
	}
	data := "mode=1777"
	if s.Size > 0 {
		data += fmt.Sprintf(",size=%dm", s.Size)
	}
	for _, dir := range s.Dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil { // it lies in another one of them
			return fmt.Errorf("private_dirs: %w", err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
			return explain(fmt.Errorf("a tmpfs on %s: %w", dir, err))
		}
	}
	if s.Processes {
		return mountProc()
	}
	return nil
}

// mountProc mounts the /proc of the job's own processes, with all that the runtime has put over files of the old one.
func mountProc() error {
	type masked struct {
		path string
		fd   int
	}
	var masks []masked
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("cannot read the node's mounts: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], "/proc/") {
			continue
		}
		if slices.ContainsFunc(masks, func(m masked) bool { return strings.HasPrefix(fields[4]+"/", m.path+"/") }) {
			continue // the mount around it comes with it
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, fields[4], unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("cannot keep what hides %s: %w", fields[4], err)
		}
		masks = append(masks, masked{fields[4], fd})
	}
	err = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("private_processes: the kernel mounts no /proc in a namespace of users while the pod's own /proc is masked: it "+
			"needs CAP_SYS_ADMIN and CAP_SYS_CHROOT (the chart's cgroup.access=capability), or the container's procMount: Unmasked: %w", err)
	}
	if err != nil {
		return fmt.Errorf("private_processes: cannot mount /proc: %w", err)
	}
	for _, m := range masks {
		if err := unix.MoveMount(m.fd, "", unix.AT_FDCWD, m.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("private_processes: cannot hide %s: %w", filepath.Clean(m.path), err)
		}
		_ = unix.Close(m.fd)
	}
	return nil
}
