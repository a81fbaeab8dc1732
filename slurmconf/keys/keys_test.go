package keys

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		version string
		file    slurmconf.Kind
		record  string
		name    string
		want    Key
		known   bool
	}{
		{"24.11", slurmconf.SlurmConf, "", "SlurmctldTimeout", Key{"SlurmctldTimeout", Uint16, "24.11", "26.05"}, true},
		{"26.05", slurmconf.SlurmConf, "", "SLURMCTLDTIMEOUT", Key{"SlurmctldTimeout", Uint16, "24.11", "26.05"}, true},
		{"24.11", slurmconf.SlurmConf, "", "PrologTimeout", Key{"PrologTimeout", Uint16, "25.05", "26.05"}, true},
		{"24.11", slurmconf.SlurmConf, "", "GetEnvTimeout", Key{"GetEnvTimeout", Uint16, "24.11", "24.11"}, true},
		{"25.05", slurmconf.SlurmConf, "", "GetEnvTimeout", Key{"GetEnvTimeout", Defunct, "25.05", "26.05"}, true},
		{"26.05", slurmconf.SlurmConf, "nodename", "RealMemory", Key{"RealMemory", Uint64, "24.11", "26.05"}, true},
		{"26.05", slurmconf.SlurmConf, "", "RealMemory", Key{}, false},
		{"26.05", slurmconf.SlurmConf, "PartitionName", "Default", Key{"Default", Bool, "24.11", "26.05"}, true},
		{"26.05", slurmconf.SlurmConf, "", "SlurmctldHost", Key{"SlurmctldHost", List, "24.11", "26.05"}, true},
		{"26.05", slurmconf.CgroupConf, "", "AllowedRAMSpace", Key{"AllowedRAMSpace", Float, "24.11", "26.05"}, true},
		{"26.05", slurmconf.GresConf, "NodeName", "File", Key{"File", String, "24.11", "26.05"}, true},
		{"26.05", slurmconf.SlurmConf, "", "Frobnicate", Key{}, false},
		{"26.05", slurmconf.TopologyYAML, "", "Nodes", Key{}, false},
	} {
		got, known := Lookup(c.version, c.file, c.record, c.name)
		assert.Equal(t, c.want, got, c.name)
		assert.Equal(t, c.known, known, c.name)
	}
}

// TestTable: each line of the table says something that can be used.
func TestTable(t *testing.T) {
	types := []Type{String, Bool, Uint16, Uint32, Uint64, Float, List, Defunct, plugin}
	for h, table := range parsed() {
		require.True(t, len(table) > 0 || h.record == "slurmctldhost", h)
		for _, all := range table {
			for _, k := range all {
				assert.Contains(t, types, k.Type, k.Name)
				assert.Contains(t, Versions, k.Since, k.Name)
				assert.Contains(t, Versions, k.Until, k.Name)
				assert.True(t, k.In(k.Since) && k.In(k.Until), k.Name)
			}
		}
	}
	for _, version := range Versions {
		assert.Greater(t, len(Of(version, slurmconf.SlurmConf, "")), 200, version)
	}
	assert.Len(t, Of("26.05", slurmconf.SlurmConf, "NodeSet"), 2)
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		Lookup("26.05", slurmconf.SlurmConf, "NodeName", "RealMemory")
	}
}
