package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// parameters checks the values within SlurmctldParameters over which slurmctld ends
// (src/conmgr/conmgr.c and workers.c, src/slurmctld/rate_limit.c).
func (c *checker) parameters() {
	pair, _ := c.conf.Get("SlurmctldParameters")
	_, limited := c.says("SlurmctldParameters", "rl_enable")
	for _, one := range pair.List() {
		name, value, _ := strings.Cut(one, "=")
		want := c.wantOf(strings.ToLower(name), value)
		if rest, isLimit := strings.CutPrefix(name, "rl_"); isLimit && limited && c.Version >= "25.11" {
			want = wantOfLimit(rest, value)
		}
		if want != "" {
			c.add(pair.Position(), slurmconf.Error, "value", fmt.Sprintf("SlurmctldParameters has %s=%s", name, value), want)
		}
	}
}

// wantOf is what a parameter of the connection manager's may be, empty if it is that.
func (c *checker) wantOf(name, value string) string {
	n, _ := strconv.ParseUint(leading(`\d*`).FindString(value), 10, 32)
	switch name {
	case "conmgr_max_connections":
		if n < 1 {
			return "at least 1"
		}
	case "conmgr_threads":
		if c.Version < "25.05" && n != 0 && (n < 2 || n > 1024) {
			return "2 to 1024"
		}
	case "conmgr_connect_timeout", "conmgr_quiesce_timeout", "conmgr_read_timeout", "conmgr_wait_write_delay", "conmgr_write_timeout":
		known := c.Version >= "26.05" || c.Version >= "25.05" && name == "conmgr_quiesce_timeout"
		if known && !compiled(`\d[\d:.-]*`).MatchString(value) {
			return "a time: 10 is ten seconds"
		}
	}
	return ""
}

// wantOfLimit is what a parameter of the rate limit may be, empty if it is that.
func wantOfLimit(name, value string) string {
	n := integerAtStart(value)
	switch name {
	case "bucket_size", "refill_period", "refill_rate", "table_size":
		if n < 1 {
			return "at least 1"
		}
	case "log_freq":
		if n < -1 {
			return "at least -1"
		}
	}
	return ""
}

// withoutEffect finds what slurmctld ignores without a line in its log.
func (c *checker) withoutEffect() {
	if pair, ok := c.has("SlurmctldParameters", "enable_expedited_requeue"); ok && c.Version < "25.11" {
		c.add(pair.Position(), slurmconf.Warning, "no-effect",
			"SlurmctldParameters has enable_expedited_requeue, which Slurm "+c.Version+" does not know", "Slurm 25.11 or newer")
	}
	if pair, ok := c.conf.Get("HealthCheckProgram"); ok && c.number("HealthCheckInterval", 0) == 0 {
		if _, set := c.conf.Get("HealthCheckInterval"); !set {
			c.add(pair.Position(), slurmconf.Warning, "no-effect",
				"HealthCheckProgram never runs, because HealthCheckInterval is not set", "HealthCheckInterval=seconds")
		}
	}
	pair, ok := c.conf.Get("SuspendProgram")
	if _, set := c.conf.Get("SuspendTime"); ok && !set && !c.partitionSuspends() {
		c.add(pair.Position(), slurmconf.Warning, "no-effect",
			"SuspendProgram never runs, because SuspendTime is not set", "SuspendTime=seconds")
	}
}

func (c *checker) partitionSuspends() bool {
	for _, p := range c.conf.Partitions() {
		if _, ok := p.Line.Get("SuspendTime"); ok {
			return true
		}
	}
	return false
}
