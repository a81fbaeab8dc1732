package slurmconf_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// large is a slurm.conf of 10,000 lines.
func large() string {
	var b strings.Builder
	for i := range 10000 {
		switch i % 10 {
		case 0:
			fmt.Fprintf(&b, "# rack %d\n", i/10)
		case 1:
			fmt.Fprintf(&b, "PartitionName=p%d Nodes=n[%d-%d] MaxTime=1-00:00:00 Default=NO State=UP\n", i, i, i+10)
		default:
			fmt.Fprintf(&b, "NodeName=n%d NodeAddr=10.1.%d.%d CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=257000 Feature=\"a,b\" # new\n", i, i/256, i%256)
		}
	}
	return b.String()
}

func BenchmarkParse10000Lines(b *testing.B) {
	text := large()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = slurmconf.Parse("slurm.conf", text)
	}
}

func BenchmarkRead10000Lines(b *testing.B) {
	from := machine(map[string]string{"etc/slurm/slurm.conf": "Include nodes\n", "etc/slurm/nodes": large()})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = slurmconf.Read(from)
	}
}

// However a text is made, it takes no more memory than some of its size, and the
// size is bounded.
func TestMemoryIsBounded(t *testing.T) {
	for _, text := range []string{"a=b\n", "a\n", "NodeName=a" + strings.Repeat(" b=c", 999) + "\n", "\\a", "a=\"", "Include a\n", "a+=\"b\n"} {
		whole := strings.Repeat(text, (slurmconf.MaxFileSize/16)/len(text))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		file, findings := slurmconf.Parse("slurm.conf", whole)
		runtime.ReadMemStats(&after)
		assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(len(whole)), uint64(160), "times the size of %.20q", text)
		assert.LessOrEqual(t, len(findings), 203)
		assert.Len(t, file.String(), len(whole))
	}
}
