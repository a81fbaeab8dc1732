package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
)

// Role is what a container is in the cluster.
type Role string

// The roles that the agent can play.
const (
	Slurmctld Role = "slurmctld"
	Slurmd    Role = "slurmd"
	Login     Role = "login" // sackd, and the sshd that users come in by
	Slurmdbd  Role = "slurmdbd"

	Slurmrestd Role = "slurmrestd"
)

// Roles lists them.
func Roles() []Role { return []Role{Slurmctld, Slurmd, Login, Slurmdbd, Slurmrestd} }

// ParseRole finds a role by its name.
func ParseRole(name string) (Role, error) {
	if slices.Contains(Roles(), Role(name)) {
		return Role(name), nil
	}
	var known []string
	for _, r := range Roles() {
		known = append(known, string(r))
	}
	return "", fmt.Errorf("cannot play role %q: there are %s", name, strings.Join(known, ", "))
}

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
	// commandEnv is the environment of Slurm's commands; nil: that of users.
	commandEnv func(Config) []string
	// registers: the daemon is a node, which is sized before it starts, confirmed
	// by its record and drained before it ends.
	registers bool
	// hosts: users are logged in beside it, and the agent drains their sessions before it ends.
	hosts bool
	// login is what users come in by, beside it; nil: nothing.
	loginFor func(*Agent, *login.Options)
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
	reach func(*Agent, context.Context) error
	// confirm succeeds when a daemon that has said READY serves; nil for a node.
	confirm func(*Agent, context.Context) error
	// troubled picks those of its errors after which what it needs is reached for again.
	troubled func(line string) bool
	// away picks those by which it says that it has no connection to its database, and waits before its next try.
	away func(line string) bool
}

// partOf is the table of the roles.
func partOf(r Role) part {
	switch r {
	case Slurmctld:
		return part{
			program: "slurmctld", tools: []string{"scontrol", "sdiag", "squeue"},
			user: slurmUser, announces: true, args: slurmctldArgs, commandEnv: placedConf,
			reloads: true, confirm: (*Agent).ping,
		}
	case Slurmd:
		return part{
			program: "slurmd", tools: []string{"scontrol", "scancel", "sinfo", "squeue"},
			announces: true, args: slurmdArgs, env: slurmdEnv, commandEnv: servedConf,
			registers: true, loginFor: (*Agent).nodeLogin, restarts: true, confCopy: confCache, reach: (*Agent).reachController,
		}
	case Login:
		return part{
			program: "sackd", tools: []string{"scontrol", "sshd", "ssh-keygen"},
			user: slurmUser, announces: true, runtime: "/run/slurm", args: sackdArgs, env: (*Agent).fetchEnv, // its copy is found as users' commands find it, in /run/slurm/conf
			hosts: true, loginFor: (*Agent).userLogin,
			restarts: true, confCopy: sackdCache, reach: (*Agent).reachController, confirm: (*Agent).ping,
		}
	case Slurmdbd:
		return part{
			program: "slurmdbd",
			user:    slurmUser, runtime: "/run/slurmdbd", open: (*Agent).openDatabase, args: inForeground, env: dbdEnv,
			converts: true, restarts: true, reach: (*Agent).reachDatabase, confirm: (*Agent).confirmDBD,
			troubled: slurmdbd.Troubled, away: slurmdbd.Away,
		}
	case Slurmrestd:
		return part{
			program: "slurmrestd",
			user:    restUser, keyless: true, runtime: "/run/slurmrestd", args: restArgs, env: restEnv,
			restarts: true, confirm: (*Agent).confirmREST,
		}
	}
	panic("no such role: " + string(r))
}

// slurmUser: from 25.05 on slurmctld must be started as SlurmUser to be run
// with --systemd.
func slurmUser(c Config) (variable, name string) { return "SLURMLET_SLURM_USER", c.SlurmUser }

// restUser: slurmrestd refuses to be root, SlurmUser or nobody.
func restUser(c Config) (variable, name string) { return "SLURMLET_REST_USER", c.RESTUser }

func slurmctldArgs(a *Agent) []string {
	return []string{"-f", reconfig.LivePath(a.Config.RunDir)}
}

func confCache(c Config) string { return filepath.Join(c.SpoolDir, "conf-cache") }

// sackdCache is where users' commands look for sackd's copy.
func sackdCache(Config) string { return "/run/slurm/conf" }

func slurmdArgs(a *Agent) []string {
	return a.node.NewArgs(a.life.Size.Conf()+a.life.Traits.Conf(), a.Config.Controller)
}

// slurmdEnv: slurmd would tell the machine's boot time, and slurmctld takes one
// that has moved for a reboot, which ends the node's jobs.
func slurmdEnv(a *Agent) []string {
	return append(a.fetchEnv(), "SLURMD_BOOT_TIME="+strconv.FormatInt(a.node.Found().Booted.Unix(), 10))
}

func sackdArgs(a *Agent) []string { return []string{"--conf-server", a.Config.Controller} }

func placedConf(c Config) []string { return []string{"SLURM_CONF=" + reconfig.LivePath(c.RunDir)} }

// inForeground is for daemons that do not know --systemd.
func inForeground(*Agent) []string { return []string{"-D"} }

// dbdEnv: slurmdbd looks for its files beside where slurm.conf would be.
func dbdEnv(a *Agent) []string {
	a.database.Starts()
	return []string{"SLURM_CONF=" + filepath.Join(a.database.Dir(), "slurm.conf")}
}

func restArgs(a *Agent) []string {
	return []string{"-a", a.Config.RESTAuth, "-s", a.Config.RESTOpenAPI, a.Config.RESTListen}
}

// restEnv: with any SLURM_JWT slurmrestd passes its clients' tokens on, in the
// place of AuthType. An unprivileged container may not unshare(2).
func restEnv(a *Agent) []string {
	env := []string{"SLURM_CONF=" + filepath.Join(a.Config.ConfDir, "slurm.conf")}
	if strings.Contains(a.Config.RESTAuth, "jwt") {
		env = append(env, "SLURM_JWT=daemon")
	}
	if slices.ContainsFunc(a.Environ, func(entry string) bool { return strings.HasPrefix(entry, "SLURMRESTD_SECURITY=") }) {
		return env
	}
	return append(env, "SLURMRESTD_SECURITY=disable_unshare_files,disable_unshare_sysv")
}

// confirmREST: slurmrestd's port answers.
func (a *Agent) confirmREST(ctx context.Context) error {
	return process.Answers(ctx, "tcp", a.Config.RESTListen)
}

func servedConf(c Config) []string { return []string{"SLURM_CONF_SERVER=" + c.Controller} }
