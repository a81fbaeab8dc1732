package main

import (
	"strings"

	"github.com/slurmlet/slurmlet/e2e/native"
)

// cluster is a real slurmctld whose log is heard.
type cluster struct {
	*native.Cluster
	registered chan moment // when slurmctld has taken the node in
}

// node runs beside slurmctld: what a pod of its own costs would be measured, too.
const node = "n1"

const slurmConf = `SlurmctldDebug=debug2
SlurmctldParameters=enable_configless
MaxNodeCount=16
`

func newCluster(lower, slurmlet string) (*cluster, error) {
	c := &cluster{registered: make(chan moment, 16)}
	var err error
	c.Cluster, err = native.NewCluster(native.Options{Lower: lower, Slurmlet: slurmlet, Aliases: []string{node}, SlurmConf: slurmConf})
	if err != nil {
		return nil, err
	}
	return c, c.Control(c.hear)
}

// hear looks for the moment that a registration is complete, which slurmctld
// says on debug2.
func (c *cluster) hear(line string) {
	if strings.Contains(line, "_slurm_rpc_node_registration complete for "+node) {
		select {
		case c.registered <- now():
		default: // nobody waits for it
		}
	}
}
