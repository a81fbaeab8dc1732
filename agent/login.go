package agent

import (
	"errors"

	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/pod/services"
	"github.com/slurmlet/slurmlet/internal/pod/systemd"
	"github.com/slurmlet/slurmlet/internal/slurmd/adopt"
)

// sshdLines is where the site's lines for sshd of login pods are mounted, in files *.conf (the chart's login.sshdConfig).
const sshdLines = "/etc/slurmlet/sshd_config.d"

// openServices prepares sssd in slurmd's pods, which look up their jobs' users by it, and in login pods. Users log in there,
// and with SLURMLET_SSH=yes those of the node's jobs also here.
func (a *Agent) openServices() error {
	a.helpers = services.New(services.Options{Table: a.Table, Log: a.log, Heard: a.pass})
	if a.daemon.hasSSSD() {
		if err := a.helpers.AddSSSD(a.Config.SSSDConfig, a.Config.RunDir, a.Config.EndLeavers); err != nil {
			return err
		}
	}
	var err error
	switch {
	case a.daemon.hosts:
		server := a.sshd()
		server.Lines = sshdLines
		a.userSessions, err = login.Open(login.Options{
			Root: a.Root, Services: a.helpers, SSHD: server, CgroupMode: a.Config.CgroupMode, Limits: a.Config.UserLimits,
			EndLeavers: a.Config.EndLeavers, Table: a.Table, Done: a.alive.Done(), Log: a.log,
		})
	case a.Config.SSH && systemd.Supervised():
		err = &Fault{Code: ExitConfig, Err: errors.New("SLURMLET_SSH=yes: on a machine with systemd, sshd and its PAM service " +
			"are systemd's to run: want no")}
	case a.Config.SSH:
		server := a.sshd()
		if server.Options, err = adopt.Options(a.Root, a.Config.NodeName); err == nil {
			_, err = a.helpers.AddSSHD(server)
		}
	}
	return err
}

// hasSSSD says whether sssd is the agent's to run. On a machine with systemd it is systemd's.
func (d daemon) hasSSSD() bool {
	return d.hosts || d.registers && !systemd.Supervised()
}

func (a *Agent) sshd() services.SSHD {
	c := a.Config
	return services.SSHD{
		Program: a.daemon.programs["sshd"], KeyGen: a.daemon.programs["ssh-keygen"], Config: c.SSHDConfig, HostKeys: c.HostKeys,
		AuthorizedKeys: c.AuthorizedKeys, RunDir: c.RunDir, Done: a.alive.Done(), Heard: func(string) {},
	}
}
