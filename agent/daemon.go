package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// daemon is what is needed to run the role's daemon.
type daemon struct {
	part
	config Config
	path   string
	// programs are the paths of the part's tools, by name.
	programs map[string]string
	// keys is the directory with auth/slurm's keys; empty: it needs none, or has munged.
	keys string
	// credential is set when the daemon runs as another user than the agent.
	credential *syscall.Credential
}

// findDaemon looks everything up, and reports all that is missing at once.
func findDaemon(c Config) (daemon, error) {
	d := daemon{part: partOf(c.Role), config: c, programs: map[string]string{}}
	var faults []error
	lookup := func(given, name string) string {
		path, err := process.Find(cmp.Or(given, name))
		faults = append(faults, err)
		return path
	}
	d.path = lookup(c.Daemon, d.program)
	for _, tool := range d.tools {
		d.programs[tool] = lookup("", tool)
	}
	var err error
	if d.user != nil {
		d.credential, err = credential(d.user(c))
	}
	faults = append(faults, err)
	if !d.keyless {
		d.keys, err = findKeys(c.keyDirs(), d.keyOwners())
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return daemon{}, &Fault{Code: ExitMissing, Err: err}
	}
	return d, nil
}

// credential makes the daemon run as a user; nil when that is the agent's own.
func credential(variable, name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 || name == "root" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot find the user %q in /etc/passwd", variable, name)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("cannot use the user %q of /etc/passwd: %w", name, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (d daemon) uid() int {
	if d.credential != nil {
		return int(d.credential.Uid)
	}
	return os.Geteuid()
}

func (d daemon) gid() int {
	if d.credential != nil {
		return int(d.credential.Gid)
	}
	return os.Getegid()
}

// makeRuntime makes the directory for the daemon's sockets (systemd.exec(5),
// RuntimeDirectory).
func (d daemon) makeRuntime() error {
	if d.runtime == "" {
		return nil
	}
	if err := os.MkdirAll(d.runtime, 0o755); err != nil {
		return fmt.Errorf("cannot make the directory for the sockets of %s: %w", d.program, err)
	}
	if err := os.Chown(d.runtime, d.uid(), d.gid()); err != nil {
		return fmt.Errorf("cannot give %s to the user of %s: %w", d.runtime, d.program, err)
	}
	return nil
}

// command is the daemon with --systemd, if it knows that: a failed reconfigure then leaves the
// old process in place, where -D would end it.
func (d daemon) command(a *Agent) process.Command {
	args, env := d.args(a), d.environ(a)
	if d.announces {
		args, env = append([]string{"--systemd"}, args...), append(env, "NOTIFY_SOCKET="+a.notify.Path())
	}
	return process.Command{
		Path: d.path, Args: append(args, d.config.DaemonArgs...), Env: env, Dir: "/", Credential: d.credential,
		Stdout: a.output.File(), Stderr: a.output.File(),
	}
}

func (d daemon) environ(a *Agent) []string {
	env := append(slices.DeleteFunc(slices.Clone(a.Environ), agentsOwn), a.keyEnv()...)
	if d.env != nil {
		env = append(env, d.env(a)...)
	}
	return env
}

// agentsOwn picks what a daemon must not inherit: the agent's settings, a
// notify socket and a watchdog that are not ours, and INVOCATION_ID, with which slurmd would
// look for its cgroup through systemd.
func agentsOwn(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	return strings.HasPrefix(name, prefix) && (known(name) || !fromService(name)) ||
		slices.Contains([]string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID", "SLURMD_BOOT_TIME"}, name)
}

// scontrolEnv tells scontrol where the configuration is.
func (d daemon) scontrolEnv() []string {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if d.commandEnv == nil {
		return env
	}
	return append(env, d.commandEnv(d.config)...)
}

func (a *Agent) notifyPath() string { return filepath.Join(a.Config.RunDir, "notify.sock") }
