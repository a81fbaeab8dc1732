package rootfs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/bundle"
)

// The statuses of a task whose program is not there, or cannot be run, as a shell has them.
const (
	exitUnable  = 126
	exitMissing = 127
)

// What a bundled task reports, as lines: that it cannot have a /proc of its own, or that its program runs, and how that has
// ended.
const (
	reportNoProc = "no proc"
	reportRuns   = "runs"
	reportEnded  = "ended "
)

// BundleRun is a task of `srun --container`, as oci.conf's RunTimeRun names it.
type BundleRun struct {
	// Bundle is its directory (%b), Environment the file of CreateEnvFile=null (%e), and Step the step's number (%s).
	Bundle, Environment, Step string
	// Store is the node's directory for containers.
	Store string
}

// batchStep is a batch script's step (%s).
const batchStep = "4294967291"

// Run runs the step's command in the bundle's container, and returns its status. It must be called on the main thread.
func (r BundleRun) Run() (int, error) {
	environment, err := r.environment()
	if err != nil {
		return 0, err
	}
	args, err := command(environment)
	if err != nil {
		return 0, err
	}
	container, err := bundle.Read(r.Bundle, os.Getuid(), os.Getgid())
	if err != nil {
		return 0, err
	}
	p := plan{Container: container, Store: r.Store, Args: args, Env: merged(environment, container.Env)}
	p.Script = r.Step == batchStep
	if dir := valueOf(environment, "PMIX_SERVER_TMPDIR"); dir != "" && exists(dir) {
		p.MPI = dir
	}
	status, err := p.start()
	if errors.Is(err, errNoProc) {
		p.Container.Namespaces = slices.DeleteFunc(p.Container.Namespaces, func(name string) bool { return name == "pid" })
		if valueOf(environment, "SLURM_LOCALID") == "0" {
			fmt.Fprintln(os.Stderr, "slurmlet: linux.namespaces: pid: the container has the node's processes, because this node's /proc is "+
				"masked and the kernel refuses a new one")
		}
		status, err = p.start()
	}
	if err != nil {
		return 0, err
	}
	return endAs(status), nil
}

// environment reads the step's, and removes the file, and what Slurm has made for it. slurmstepd has made it as this
// user: nobody else's is believed.
func (r BundleRun) environment() ([]string, error) {
	f, err := os.OpenFile(r.Environment, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the step's environment (oci.conf needs CreateEnvFile=null, and --environment=%%e in "+
			"RunTimeRun): %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || int(st.Uid) != os.Getuid() || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("cannot read the step's environment: %s is not the job's user's: %w", r.Environment, err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read the step's environment: %w", err)
	}
	r.clean()
	return strings.FieldsFunc(string(text), func(c rune) bool { return c == 0 }), nil
}

// commandVariable is the step's command, by the plugin (tell_command in spank/bundle.c). It is no part of the program's
// environment.
const commandVariable = "SLURMLET_COMMAND"

// command reads the step's command: an argument a line, in which a backslash is before another one and before an n, which
// is a line's end.
func command(environment []string) ([]string, error) {
	var args []string
	for line := range strings.Lines(valueOf(environment, commandVariable)) {
		args = append(args, strings.NewReplacer(`\\`, `\`, `\n`, "\n").Replace(strings.TrimSuffix(line, "\n")))
	}
	if len(args) == 0 {
		return nil, errors.New("the step's command is not known: plugstack.conf needs spank_slurmlet.so, whose store= has the directory oci " +
			"that oci.conf's ContainerPath names")
	}
	return args, nil
}

// clean removes the file and the directories that Slurm has made for this task below the step's, which other tasks use.
// Slurm 26.05 makes three, and removes the last.
func (r BundleRun) clean() {
	_ = os.Remove(r.Environment)
	base := filepath.Join(r.Store, Spool)
	below, err := filepath.Rel(base, filepath.Dir(r.Environment))
	if err != nil || strings.HasPrefix(below, "..") {
		return // the site has another ContainerPath
	}
	for strings.Contains(below, "/") {
		_ = os.Remove(filepath.Join(base, below)) // an empty directory that stays harms nobody
		below = filepath.Dir(below)
	}
}

// Spool is the directory in the store where Slurm makes one for each step of `srun --container` (oci.conf's ContainerPath).
const Spool = "oci"

// merged is the step's environment, with the bundle's where that has the same names, as Slurm has it without
// IgnoreFileConfigJson. Slurm's own variables are the step's.
func merged(step, bundle []string) []string {
	all := slices.DeleteFunc(slices.Clone(step), func(entry string) bool { return strings.HasPrefix(entry, commandVariable+"=") })
	for _, entry := range bundle {
		name, _, _ := strings.Cut(entry, "=")
		i := slices.IndexFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"=") })
		switch {
		case i >= 0 && (strings.HasPrefix(name, "SLURM") || strings.HasPrefix(name, "PMI")):
		case i >= 0:
			all[i] = entry
		default:
			all = append(all, entry)
		}
	}
	return all
}

func valueOf(environment []string, name string) string {
	for _, entry := range environment {
		if value, is := strings.CutPrefix(entry, name+"="); is {
			return value
		}
	}
	return ""
}

// start starts the task in namespaces of its own, and waits for its end.
func (p *plan) start() (syscall.WaitStatus, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return 0, fmt.Errorf("cannot start the container: %w", err)
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("cannot start the container: %w", err)
	}
	defer told.Close()
	report, reports, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("cannot start the container: %w", err)
	}
	defer report.Close()
	cmd, err := p.task(told, reports)
	if err == nil {
		err = cmd.Start()
	}
	_ = reports.Close()
	if err != nil {
		return 0, explain("cannot make namespaces for the container", err)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	defer signal.Stop(signals)
	if err := become("slurmstepd"); err != nil {
		return 0, err
	}
	if _, err := tell.Write(text); err != nil {
		_ = cmd.Process.Kill()
	}
	_ = tell.Close()
	go pass(signals, cmd.Process.Pid)
	return awaitTask(cmd.Process.Pid, report)
}

// awaitTask waits for the end of the task, and then returns how its program has ended.
func awaitTask(pid int, report *os.File) (status syscall.WaitStatus, err error) {
	said := bufio.NewScanner(report)
	if !said.Scan() || said.Text() == reportRuns { // the end of the file comes when it is the program, or has failed
		leaveOutput()
		said.Scan()
	}
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch code, ended := strings.CutPrefix(said.Text(), reportEnded); {
	case err != nil:
		return 0, fmt.Errorf("cannot wait for the container: %w", err)
	case said.Text() == reportNoProc:
		return 0, errNoProc
	case ended:
		number, err := strconv.ParseUint(code, 10, 32)
		return syscall.WaitStatus(number), err
	}
	return status, nil
}

// ownGroup starts a process in a group of its own, which has the terminal if this process has it: what a user types there is
// for the program alone, and a process that passes signals on does not get it as well.
func ownGroup() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		attr.Foreground, attr.Ctty = true, 0
	}
	return attr
}

// task is this program as the bundled task.
func (p *plan) task(told, report *os.File) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot start the container: %w", err)
	}
	cmd := exec.Command(self, Bundled)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{told, report}
	attr := ownGroup()
	attr.Cloneflags, attr.Pdeathsig = unix.CLONE_NEWUSER|unix.CLONE_NEWNS, unix.SIGKILL
	for _, kind := range p.Container.Namespaces {
		attr.Cloneflags |= map[string]uintptr{
			"net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "pid": unix.CLONE_NEWPID,
			"cgroup": unix.CLONE_NEWCGROUP,
		}[kind]
	}
	if p.Container.UID != 0 { // a user who is not root would lose them at execve(2)
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_NET_ADMIN}
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: p.Container.UID, HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: p.Container.GID, HostID: os.Getgid(), Size: 1}}
	cmd.SysProcAttr = attr
	return cmd, nil
}

// pass passes signals on to the program. A child's end and a closed pipe are this process' own.
func pass(signals <-chan os.Signal, pid int) {
	for s := range signals {
		switch sig, _ := s.(syscall.Signal); sig {
		case unix.SIGCHLD, unix.SIGPIPE, unix.SIGURG:
		default:
			_ = syscall.Kill(pid, sig)
		}
	}
}

// become names this process, as ps(1) has it. proctrack/linuxproc signals the children of what has slurmstepd's name, and
// not that itself, so no signal comes twice.
func become(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return fmt.Errorf("cannot be called %s: %w", name, err)
	}
	return nil
}

// waitFor starts the program as a child of this process, which is the first one of the container's namespace of
// processes: it ends what is left there, and signals without a handler do not reach it.
func (p *plan) waitFor(program string, report *os.File) (int, error) {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	pid, err := syscall.ForkExec(program, p.Args, &syscall.ProcAttr{Env: p.Env, Files: []uintptr{0, 1, 2}, Sys: ownGroup()})
	if err != nil {
		return exitUnable, fmt.Errorf("cannot run %s in the container: %w", program, err)
	}
	if _, err := fmt.Fprintln(report, reportRuns); err != nil {
		return 0, fmt.Errorf("cannot say that %s runs: %w", program, err)
	}
	leaveOutput()
	go pass(signals, pid)
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, fmt.Errorf("cannot wait for %s: %w", program, err)
		}
		if ended == pid && (status.Exited() || status.Signaled()) {
			_, err = fmt.Fprintf(report, "%s%d\n", reportEnded, uint32(status))
			return 0, err
		}
	}
}

// leaveOutput leaves the task's input and output to its program: who reads waits for the end of them.
func leaveOutput() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err == nil {
			err = unix.Dup3(null, fd, 0)
		} else {
			_ = unix.Close(fd) // the container has no /dev/null
		}
	}
}

// endAs ends this process by the signal that has ended the program, or returns its status.
func endAs(status syscall.WaitStatus) int {
	if !status.Signaled() {
		return status.ExitStatus()
	}
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	signal.Reset(status.Signal())
	_ = syscall.Kill(os.Getpid(), status.Signal())
	return 128 + int(status.Signal())
}
