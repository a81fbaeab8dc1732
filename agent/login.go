package agent

import (
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

func (a *Agent) loginOptions() login.Options {
	o := login.Options{
		Root: a.Root, RunDir: a.Config.RunDir, Table: a.Table, Done: a.over, Log: a.log,
		Heard: func(line process.Line) {
			a.Observe(Notice{Level: line.Level, Source: line.Source, Text: line.Text})
		},
	}
	if a.daemon.loginFor != nil {
		a.daemon.loginFor(a, &o)
	}
	return o
}

// nodeLogin is sssd, which jobs' users are looked up by. On a machine with systemd it is
// systemd's to run.
func (a *Agent) nodeLogin(o *login.Options) {
	if !supervised() {
		o.SSSDConfig = a.Config.SSSDConfig
	}
}

func (a *Agent) userLogin(o *login.Options) {
	o.Begun, o.Ended = a.sessionCgroups.begin, a.sessionCgroups.end
	o.SSSDConfig, o.SSHDConfig = a.Config.SSSDConfig, a.Config.SSHDConfig
	o.HostKeys, o.AuthorizedKeys = a.Config.HostKeys, a.Config.AuthorizedKeys
	o.SSHD, o.KeyGen = a.daemon.programs["sshd"], a.daemon.programs["ssh-keygen"]
}
