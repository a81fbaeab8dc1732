package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// part is all that sets a role apart from the others.
type part struct {
	// program is its daemon, tools are those that the agent calls.
	program string
	tools   []string
	// user is whose the daemon is, and the variable that says so; nil: the agent's own user's.
	user func(Config) (variable, name string)
	// keyless: it needs no key of the cluster's.
	keyless bool
	// announces: it runs with --systemd, says READY itself and hands over to a
	// successor (sd_notify(3)); otherwise it runs in the foreground and is asked.
	announces bool
	// runtime is the directory that it makes its sockets in, and must own; the agent
	// makes it, as systemd would.
	runtime string
	// open makes its files ready, before the first start.
	open func(*Agent) error
	// args and env are the daemon's, before SLURMLET_DAEMON_ARGS and beside what it inherits.
	args, env func(*Agent) []string
	// versionEnv is the environment in which the daemon tells its version; nil: it never does.
	versionEnv func(*Agent) []string
	// commandEnv is the environment of Slurm's commands; nil: that of users.
	commandEnv func(Config) []string
	// registers: the daemon is a node, which is sized before it starts, confirmed
	// by its record and drained before it ends.
	registers bool
	// hosts: users are logged in beside it, and the agent drains their sessions before it ends.
	hosts bool
	// converts: it may convert a database before it listens, and any signal would end it meanwhile.
	converts bool
	// restarts: it is started again when it ends by itself; otherwise the container
	// ends with it.
	restarts bool
	// reloads: its configuration comes from sources, and the agent puts it in place.
	reloads bool
	// confCopy is where the daemon keeps what it has fetched of the cluster's
	// configuration; nil: it fetches none.
	confCopy func(Config) string
	// reach succeeds when the daemon can be started; nil: it always can.
	reach func(context.Context, *Agent) error
	// confirm succeeds when a daemon that has said READY serves; nil for a node.
	confirm func(context.Context, *Agent) error
	// troubled picks those of its errors after which what it needs is reached for again.
	troubled func(line string) bool
	// away picks those by which it says that it has no connection to its database, and waits before its next try.
	away func(line string) bool
}

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
	if c.SSH {
		d.tools = append(d.tools, "sshd", "ssh-keygen")
	}
	for _, tool := range d.tools {
		d.programs[tool] = lookup("", tool)
	}
	var err error
	if d.user != nil {
		d.credential, err = credential(d.user(c))
	}
	faults = append(faults, err)
	if !d.keyless {
		d.keys, err = authkeys.Find(d.keyDirs(), authkeys.Owners(d.uid(), c.SlurmUser))
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

// keyDirs is where the cluster's key may be.
func (d daemon) keyDirs() []string {
	if d.reloads {
		return d.config.ConfSources
	}
	return []string{d.config.ConfDir}
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

// command is the daemon.
func (d daemon) command(a *Agent) process.Command {
	return process.Command{
		Path: d.path, Args: append(d.args(a), d.config.DaemonArgs...), Env: d.environ(a), Dir: "/", Credential: d.credential,
	}
}

func (d daemon) environ(a *Agent) []string {
	env := append(slices.DeleteFunc(slices.Clone(a.Environ), agentsOwn), a.keys.Env()...)
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
