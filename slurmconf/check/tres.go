package check

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// counted are the trackable resources that need no name and no slurmdbd, and
// named those that have a name and come from slurmdbd (src/slurmctld/controller.c,
// _init_tres).
var (
	counted = []string{"billing", "cpu", "energy", "mem", "node", "pages", "vmem"}
	named   = []string{"bb", "fs", "gres", "ic", "license"}
)

// tres checks the names of trackable resources, and their weights.
func (c *checker) tres() {
	pair, _ := c.conf.Get("AccountingStorageTRES")
	tracked := map[string]bool{"fs/disk": true}
	for _, one := range pair.List() {
		c.trackable(pair, one)
		tracked[strings.ToLower(one)] = true
		if strings.EqualFold(one, "gres/gpu") {
			tracked["gres/gpumem"], tracked["gres/gpuutil"] = true, true
		}
	}
	if plugin, _ := c.conf.Value("PriorityType"); plugin == "priority/multifactor" {
		if weights, ok := c.conf.Get("PriorityWeightTRES"); ok {
			c.weights(weights, tracked)
		}
	}
	for _, node := range c.conf.Nodes() {
		if weights, ok := node.Get("TRESWeights"); ok {
			c.weights(weights, tracked)
		}
	}
	for _, p := range c.conf.Partitions() {
		if weights, ok := p.Get("TRESBillingWeights"); ok {
			c.weights(weights, tracked)
		}
	}
}

func (c *checker) trackable(pair slurmconf.Pair, name string) {
	kind, of, hasName := strings.Cut(strings.ToLower(name), "/")
	switch {
	case oneOf(counted...)(name), strings.HasPrefix(strings.ToLower(name), "fs/disk"):
	case !hasName || !oneOf(named...)(kind):
		c.add(pair.Position(), slurmconf.Error, "tres", fmt.Sprintf("%s has %q", pair.Key, name),
			strings.Join(counted, ", ")+", or "+strings.Join(named, "/…, ")+"/…")
	case !c.withSlurmdbd():
		c.add(pair.Position(), slurmconf.Error, "tres",
			fmt.Sprintf("%s has %s, which only slurmdbd knows", pair.Key, name), "AccountingStorageType=accounting_storage/slurmdbd")
	case of == "":
		c.add(pair.Position(), slurmconf.Warning, "tres",
			fmt.Sprintf("%s has %q, which is of no name", pair.Key, name), "a name behind it, as in gres/gpu")
	}
}

func (c *checker) withSlurmdbd() bool {
	plugin, _ := c.conf.Value("AccountingStorageType")
	return plugin == "accounting_storage/slurmdbd"
}

// weights judges a list of TRES with their weights. slurmctld ends over one that it cannot read
// (src/common/slurm_protocol_api.c, slurm_get_tres_weight_array).
func (c *checker) weights(pair slurmconf.Pair, tracked map[string]bool) {
	for one := range strings.SplitSeq(pair.Value, ",") {
		name, weight, _ := strings.Cut(one, "=")
		name = strings.TrimLeft(name, "=")
		switch lower := strings.ToLower(name); {
		case one == "":
		case weight == "":
			c.add(pair.Position(), slurmconf.Error, "tres", fmt.Sprintf("%s has %q", pair.Key, one), "resource=number")
		case !oneOf(counted...)(name) && !tracked[lower]:
			severity, want := slurmconf.Error, "one of "+strings.Join(counted, ", ")
			if kind, _, ok := strings.Cut(lower, "/"); ok && oneOf(named...)(kind) {
				want = "it in AccountingStorageTRES"
				if c.withSlurmdbd() {
					severity = slurmconf.Warning // which knows what any cluster has ever counted
				}
			}
			c.add(pair.Position(), severity, "tres", fmt.Sprintf("%s has %s, which is not counted", pair.Key, name), want)
		case !leading(`(\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)?([KMGTPkmgtp].*)?$`).MatchString(weight):
			c.add(pair.Position(), slurmconf.Error, "tres", fmt.Sprintf("%s has %q", pair.Key, one),
				"a number, or one with K, M, G, T or P: Mem=0.25G")
		}
	}
}
