package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// instead are keys of which Slurm reads the second where both are set.
var instead = []struct{ ignored, counts string }{
	{"DenyAccounts", "AllowAccounts"},
	{"DenyQos", "AllowQos"},
	{"DefMemPerCPU", "DefMemPerNode"},
	{"MaxMemPerCPU", "MaxMemPerNode"},
}

// partitionOptions finds what slurmctld ignores in them, and in slurm.conf itself.
func (c *checker) partitionOptions() {
	if len(c.conf.Partitions()) == 0 {
		c.add(c.startOfConf(), slurmconf.Info, "partitions", "there are no partitions, and no job can be submitted", "a PartitionName line")
	}
	for _, i := range instead {
		if pair, ok := c.conf.Get(i.ignored); ok {
			if _, both := c.conf.Get(i.counts); both {
				c.ignored(pair, i.counts)
			}
		}
		for _, p := range c.conf.Partitions() {
			pair, ok := p.Get(i.ignored)
			if _, both := p.Get(i.counts); ok && both {
				c.ignored(pair, i.counts)
			}
		}
	}
}

func (c *checker) ignored(pair slurmconf.Pair, because string) {
	c.add(pair.Position(), slurmconf.Warning, "ignored", fmt.Sprintf("%s is ignored, because %s is set", pair.Key, because), "one of both")
}

// specialized: CpuSpecList has numbers of CPUs that the node has.
func (c *checker) specialized(node slurmconf.Node) {
	pair, ok := node.Get("CpuSpecList")
	all, _ := node.Get("CPUs")
	cpus, err := all.Uint(math.MaxUint16)
	if !ok || err != nil || cpus == 0 {
		return
	}
	for _, span := range pair.List() {
		for one := range strings.SplitSeq(span, "-") {
			if n, err := strconv.ParseUint(one, 10, 16); err == nil && n >= cpus {
				c.add(pair.Position(), slurmconf.Warning, "node-shape",
					fmt.Sprintf("CpuSpecList has %d, and there are %d CPUs; Slurm ignores it", n, cpus), fmt.Sprintf("0 to %d", cpus-1))
				return
			}
		}
	}
}

// shape finds numbers of a node that do not fit each other, and that Slurm
// replaces (src/common/read_config.c, _parse_nodename).
func (c *checker) shape(node slurmconf.Node) {
	number := func(key string) (uint64, slurmconf.Pair, bool) {
		pair, ok := node.Get(key)
		n, err := pair.Uint(math.MaxUint16)
		if !ok || err != nil || n == 0 {
			return 1, pair, false
		}
		return n, pair, true
	}
	c.specialized(node)
	cpus, at, hasCPUs := number("CPUs")
	cores, _, _ := number("CoresPerSocket")
	threads, _, _ := number("ThreadsPerCore")
	sockets, atSockets, hasSockets := number("Sockets")
	boards, _, _ := number("Boards")
	perBoard, _, hasPerBoard := number("SocketsPerBoard")
	switch {
	case hasPerBoard && hasSockets:
		c.add(atSockets.Position(), slurmconf.Warning, "node-shape", "Sockets is ignored, because SocketsPerBoard is set", "one of both")
		fallthrough
	case hasPerBoard:
		sockets = boards * perBoard
	case !hasSockets && hasCPUs && cpus%(cores*threads) == 0:
		sockets = cpus / (cores * threads)
	case !hasSockets:
		sockets = boards
	}
	if hasCPUs && cpus != sockets && cpus != sockets*cores && cpus != sockets*cores*threads {
		c.add(at.Position(), slurmconf.Warning, "node-shape",
			fmt.Sprintf("CPUs is %d, and there are %d sockets of %d cores with %d threads each; Slurm counts those",
				cpus, sockets, cores, threads),
			"the number of sockets, cores or threads, or none")
	}
}
