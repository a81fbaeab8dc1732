package slurmctld

import (
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// newAccounts makes what brings slurmdbd into step with SLURMLET_ACCOUNTS.
func (p *Pod) newAccounts() *accounts.Keeper {
	return accounts.NewKeeper(accounts.Options{
		File: filepath.Join(p.Root, p.Accounts), Record: filepath.Join(p.StateDir, "slurmlet", accounts.RecordName),
		Client: p.Slurm, Cluster: p.accountedCluster, Published: p.Published, Done: p.Done, Log: p.Log,
	})
}

// accountedCluster is the ClusterName while slurmctld serves with accounting, empty otherwise. slurmdbd keeps it in small
// letters.
func (p *Pod) accountedCluster() string {
	if pid, _ := p.serving(); pid == 0 {
		return ""
	}
	set, _ := slurmconf.Read(slurmconf.Dir(p.reloader.LiveDir()), slurmconf.SlurmConf)
	conf := set.Conf(slurmconf.SlurmConf)
	if conf == nil || !conf.Accounted() {
		return ""
	}
	name, _ := conf.Value("ClusterName")
	return strings.ToLower(name)
}
