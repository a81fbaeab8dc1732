package agent

import (
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/pod/systemd"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
)

func (a *Agent) loginOptions() login.Options {
	o := login.Options{
		Root: a.Root, RunDir: a.Config.RunDir, Table: a.Table, Done: a.alive.Done(), Log: a.log, Heard: a.pass,
	}
	if a.daemon.loginFor != nil {
		a.daemon.loginFor(a, &o)
	}
	return o
}

// nodeLogin is sssd, which jobs' users are looked up by. On a machine with systemd it is
// systemd's to run.
func nodeLogin(a *Agent, o *login.Options) {
	if !systemd.Supervised() {
		o.SSSDConfig = a.Config.SSSDConfig
	}
}

// userLogin is sssd, and sshd with the sessions of the users.
func userLogin(a *Agent, o *login.Options) {
	c := a.Config
	o.Cgroups = login.Cgroups{Wanted: c.CgroupMode != cgroups.Off, Required: c.CgroupMode == cgroups.Require, Advice: cgroups.OpenTree}
	o.SSSDConfig, o.SSHDConfig = c.SSSDConfig, c.SSHDConfig
	o.HostKeys, o.AuthorizedKeys = c.HostKeys, c.AuthorizedKeys
	o.SSHD, o.KeyGen = a.daemon.programs["sshd"], a.daemon.programs["ssh-keygen"]
}
