package slurmconf

import (
	"path"
	"slices"
	"strings"
)

// Kind is which of Slurm's files a text is, by the name that Slurm gives it. It
// decides the grammar, and which keys begin a record.
type Kind string

// The files of Slurm 24.11 to 26.05 that this package reads. Slurm has no
// topology.conf and topology.yaml at once: the latter wins.
const (
	SlurmConf        Kind = "slurm.conf"
	CgroupConf       Kind = "cgroup.conf"
	GresConf         Kind = "gres.conf"
	TopologyConf     Kind = "topology.conf"
	TopologyYAML     Kind = "topology.yaml"
	AcctGatherConf   Kind = "acct_gather.conf"
	BurstBufferConf  Kind = "burst_buffer.conf"
	HelpersConf      Kind = "helpers.conf"
	JobContainerConf Kind = "job_container.conf"
	MPIConf          Kind = "mpi.conf"
	NamespaceYAML    Kind = "namespace.yaml"
	OCIConf          Kind = "oci.conf"
	PlugstackConf    Kind = "plugstack.conf"
	ResourcesYAML    Kind = "resources.yaml"
	SlurmdbdConf     Kind = "slurmdbd.conf"
)

// Kinds is all of them, slurm.conf first.
var Kinds = []Kind{
	SlurmConf, CgroupConf, GresConf, TopologyConf, TopologyYAML, AcctGatherConf, BurstBufferConf,
	HelpersConf, JobContainerConf, MPIConf, NamespaceYAML, OCIConf, PlugstackConf, ResourcesYAML, SlurmdbdConf,
}

// KindOf is the kind of a file by its name: that of slurm.conf, for a name
// that Slurm does not know.
func KindOf(name string) Kind {
	if k := Kind(path.Base(name)); slices.Contains(Kinds, k) {
		return k
	}
	return SlurmConf
}

// records are the keys behind which more pairs may stand on a line.
var records = map[Kind][]string{
	SlurmConf:        {"NodeName", "PartitionName", "NodeSet", "DownNodes", "FrontendName", "PowerAction", "SlurmctldHost"},
	GresConf:         {"Name", "NodeName"},
	TopologyConf:     {"SwitchName", "BlockName", "RingName"},
	HelpersConf:      {"Feature", "NodeName"},
	JobContainerConf: {"NodeName", "BasePath"},
}

// lists are the keys that may be set several times, all of which count, and
// that begin no record.
var lists = map[Kind][]string{
	SlurmConf:   {"Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"},
	OCIConf:     {"SrunArgs"},
	HelpersConf: {"MutuallyExclusive"},
}

// IsRecord says whether key begins a record in files of this kind.
func (k Kind) IsRecord(key string) bool { return contains(records[k], key) }

// IsList says whether key may be set more than once, with every value counting.
func (k Kind) IsList(key string) bool {
	return k.IsRecord(key) || contains(lists[k], key)
}

// contains says whether a key is among others; capitals do not matter.
func contains(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(one string) bool { return strings.EqualFold(one, key) })
}

// refusal is what Slurm does about a line that it cannot read: in mpi.conf, of
// which each plugin takes what it knows, it passes over it.
func (k Kind) refusal() Severity {
	if k == MPIConf {
		return Warning
	}
	return Error
}

// yaml says whether the file is YAML.
func (k Kind) yaml() bool { return strings.HasSuffix(string(k), ".yaml") }
