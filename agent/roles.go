package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmdbd"
)

// Role is what a container is in the cluster.
type Role = role.Role

// The roles that the agent can play.
const (
	Slurmctld  = role.Slurmctld
	Slurmd     = role.Slurmd
	Login      = role.Login
	Slurmdbd   = role.Slurmdbd
	Slurmrestd = role.Slurmrestd
)

// Roles lists them.
func Roles() []Role { return role.All() }

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

// partOf is the table of the roles.
func partOf(r Role) part {
	switch r {
	case Slurmctld:
		return part{
			program: "slurmctld", tools: []string{"scontrol", "sdiag", "squeue"},
			user: slurmUser, announces: true, args: slurmctldArgs, versionEnv: noEnv, commandEnv: placedConf,
			reloads: true, confirm: ping,
		}
	case Slurmd:
		return part{
			program: "slurmd", tools: []string{"scontrol", "scancel", "sinfo", "squeue"},
			announces: true, args: slurmdArgs, env: slurmdEnv, versionEnv: noEnv, commandEnv: servedConf,
			registers: true, restarts: true, confCopy: confCache, reach: reachSlurmctld,
		}
	case Login:
		return part{
			program: "sackd", tools: []string{"scontrol", "sshd", "ssh-keygen"},
			user: slurmUser, announces: true, runtime: "/run/slurm", args: sackdArgs,
			env:   fetchEnv, // sackd's copy of the configuration is found as users' commands find it, in /run/slurm/conf
			hosts: true, restarts: true, confCopy: sackdCache, reach: reachSlurmctld, confirm: ping,
		}
	case Slurmdbd:
		return part{
			program: "slurmdbd",
			user:    slurmUser, runtime: "/run/slurmdbd", open: openDatabase, args: inForeground, env: dbdEnv, versionEnv: dbdConf,
			converts: true, restarts: true, reach: reachDatabase, confirm: confirmDBD,
			troubled: slurmdbd.Troubled, away: slurmdbd.Away,
		}
	case Slurmrestd:
		return part{
			program: "slurmrestd",
			user:    restUser, keyless: true, runtime: "/run/slurmrestd", args: restArgs, env: restEnv, versionEnv: noEnv,
			restarts: true, confirm: confirmREST,
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
	return a.slurmdNode.NewArgs(a.life.Size.Conf()+a.life.Traits.Conf(), a.Config.Slurmctld)
}

// slurmdEnv: slurmd would tell the machine's boot time, and slurmctld takes one
// that has moved for a reboot, which ends the node's jobs.
func slurmdEnv(a *Agent) []string {
	return append(a.keys.FetchEnv(), "SLURMD_BOOT_TIME="+strconv.FormatInt(a.slurmdNode.Found().Booted.Unix(), 10))
}

func fetchEnv(a *Agent) []string { return a.keys.FetchEnv() }

func sackdArgs(a *Agent) []string { return []string{"--conf-server", a.Config.Slurmctld} }

func placedConf(c Config) []string { return []string{"SLURM_CONF=" + reconfig.LivePath(c.RunDir)} }

// inForeground is for daemons that do not know --systemd.
func inForeground(*Agent) []string { return []string{"-D"} }

// dbdEnv: slurmdbd looks for its files beside where slurm.conf would be.
func dbdEnv(a *Agent) []string {
	a.database.Starts()
	return dbdConf(a)
}

// dbdConf is where slurmdbd finds slurmdbd.conf, without which it does not even tell its version.
func dbdConf(a *Agent) []string {
	return []string{"SLURM_CONF=" + filepath.Join(a.database.Dir(), "slurm.conf")}
}

func noEnv(*Agent) []string { return []string{} }

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
func confirmREST(ctx context.Context, a *Agent) error {
	return process.Answers(ctx, "tcp", a.Config.RESTListen)
}

func servedConf(c Config) []string { return []string{"SLURM_CONF_SERVER=" + c.Slurmctld} }

func ping(ctx context.Context, a *Agent) error { return a.client.Ping(ctx) }

func reachSlurmctld(ctx context.Context, a *Agent) error {
	return a.names.Reach(ctx, a.Config.Slurmctld)
}

// openDatabase has the files of slurmdbd copied for it.
func openDatabase(a *Agent) error {
	a.database = slurmdbd.NewDatabase(slurmdbd.Options{
		Upgrade: a.Config.Upgrade, DumpDir: a.Config.DumpDir,
		Line:    func(ctx context.Context) (string, error) { return slurm.Version(ctx, a.daemon.path, dbdConf(a)) },
		ConfDir: a.Config.ConfDir, RunDir: a.Config.RunDir, UID: a.daemon.uid(), GID: a.daemon.gid(), Done: a.alive.Done(), Log: a.log,
		Changed: func(restart bool) { a.post(supervisor.FilesChanged{Restart: restart}) },
	})
	return a.database.Open()
}

func reachDatabase(ctx context.Context, a *Agent) error { return a.database.Reach(ctx) }
func confirmDBD(ctx context.Context, a *Agent) error    { return a.database.Confirm(ctx) }
