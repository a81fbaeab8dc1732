package slurmctld

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// accountsRecord is the record of the accounts that were made.
func (p *Pod) accountsRecord() string {
	return filepath.Join(p.StateDir, "slurmlet", accounts.RecordName)
}

// holdAccounts returns what keeps accounts from being changed, nil where the agent changes none.
func (p *Pod) holdAccounts() func(context.Context) (func(), error) {
	if p.Accounts == "" {
		return nil
	}
	return func(ctx context.Context) (func(), error) { return accounts.Hold(ctx, p.accountsRecord()) }
}

// newAccounts makes what brings slurmdbd into step with SLURMLET_ACCOUNTS.
func (p *Pod) newAccounts() *accounts.Keeper {
	return accounts.NewKeeper(accounts.Options{
		File: filepath.Join(p.Root, p.Accounts), Record: p.accountsRecord(),
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
