package slurmconf

import "strings"

// defaults are those of slurm.conf(5) that no supported version and no packager changes, for
// keys that slurmlet asks for. PluginDir and the like depend on the build.
var defaults = map[string]string{
	"authtype":          "auth/munge",
	"killwait":          "30",
	"messagetimeout":    "10",
	"proctracktype":     "proctrack/cgroup",
	"returntoservice":   "0",
	"selecttype":        "select/cons_tres",
	"slurmctldport":     "6817",
	"slurmctldtimeout":  "120",
	"slurmdport":        "6818",
	"slurmdspooldir":    "/var/spool/slurmd",
	"slurmdtimeout":     "300",
	"slurmduser":        "root",
	"slurmuser":         "root",
	"statesavelocation": "/var/spool",
	"tmpfs":             "/tmp",
}

// Value is what counts for a key of slurm.conf: what the files say, else
// Slurm's default where it is the same everywhere, else nothing. from is where the
// files say it, the zero Position for a default.
func (c *Conf) Value(key string) (value string, from Position) {
	if pair, ok := c.Get(key); ok {
		return pair.Value, pair.Position()
	}
	return defaults[strings.ToLower(key)], Position{}
}

// Accounted says whether the cluster has a slurmdbd (AccountingStorageType, with the plugin's
// kind before it or without).
func (c *Conf) Accounted() bool {
	storage, _ := c.Value("AccountingStorageType")
	return strings.TrimPrefix(storage, "accounting_storage/") == "slurmdbd"
}

// SlurmctldHost is a host that slurmctld runs on (SlurmctldHost).
type SlurmctldHost struct {
	// Host is what `hostname -s` says there, Address how others reach it.
	Host, Address string
	From          Position
}

// SlurmctldHosts are the hosts for slurmctld, the primary one first.
func (c *Conf) SlurmctldHosts() []SlurmctldHost {
	var all []SlurmctldHost
	for _, p := range c.All("SlurmctldHost") {
		host, address, has := strings.Cut(strings.TrimSuffix(p.Value, ")"), "(")
		if !has {
			address = host
		}
		all = append(all, SlurmctldHost{host, address, p.Position()})
	}
	if len(all) > 0 {
		return all
	}
	return append(c.oldSlurmctldHosts("ControlMachine", "ControlAddr"), c.oldSlurmctldHosts("BackupController", "BackupAddr")...)
}

// oldSlurmctldHosts is how controllers were named before SlurmctldHost. It still counts.
func (c *Conf) oldSlurmctldHosts(host, address string) []SlurmctldHost {
	name, ok := c.Get(host)
	if !ok {
		return nil
	}
	at, ok := c.Get(address)
	if !ok {
		at = name
	}
	return []SlurmctldHost{{name.Value, at.Value, name.Position()}}
}
