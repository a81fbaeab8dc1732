//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// onlyAtStart are edits that neither slurmlet's check nor Slurm's parser minds.
var onlyAtStart = []badEdit{
	{name: "a plugin that there is not", text: add("JobSubmitPlugins=job_submit/nosuch"), says: "slurmctld (dry run): "},
	{name: "a script that is missing", text: add("JobSubmitPlugins=lua"), says: "Unable to stat /etc/slurm/job_submit.lua"},
}

// fullPreflight: the living slurmctld never hears of an edit that ends it, and a good one takes not much longer.
func fullPreflight(t *testing.T, c *cluster) {
	spec, e := c.configMap()
	took := map[string][]time.Duration{}
	for _, preflight := range []string{"parse", "full"} {
		spec.Env["SLURMLET_PREFLIGHT"] = preflight
		c.replace(t, spec)
		good := e.agent(t, sandbox.Controller).Conf.Good
		for n := range 5 {
			e.swap(t, e.with("slurm.conf", set("PrologEpilogTimeout", fmt.Sprint(70+n))(e.conf())))
			good = e.waitLive(t, good)
			took[preflight] = append(took[preflight], e.sinceSwap(t))
			e.waitReady(t, sandbox.Controller, "node-0", "node-1")
		}
	}
	for _, all := range took {
		slices.Sort(all)
	}
	t.Logf("from the swap of ..data to the last node's new slurmd, with the parser %v, with a dry run %v", took["parse"], took["full"])
	before := e.agent(t, sandbox.Controller).Main.PID
	heard := len(e.lines(t, sandbox.Controller, "slurmctld"))
	for _, bad := range onlyAtStart {
		t.Run(bad.name, func(t *testing.T) { e.refuses(t, bad) })
	}
	assert.Equal(t, before, e.agent(t, sandbox.Controller).Main.PID)
	for _, line := range e.lines(t, sandbox.Controller, "slurmctld")[heard:] {
		assert.NotContains(t, strings.ToLower(fmt.Sprint(line["msg"])), "reconfigur")
	}
	for _, line := range e.lines(t, sandbox.Controller, "slurmlet") {
		assert.NotContains(t, line["msg"], "goes on without")
	}
	assert.Empty(t, e.run(t, sandbox.Controller, "find", "/run/slurmlet", "-name", "dryrun*"))
	e.swap(t, e.files)
	e.waitLive(t, "")
	c.replace(t, c.Controller())
}
