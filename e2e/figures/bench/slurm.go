package main

import (
	"strings"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// cluster is a real slurmctld whose log is heard.
type cluster struct {
	*native.Cluster
	version    string
	registered chan moment // when slurmctld has taken the node in
}

// node runs beside slurmctld: what a pod of its own costs would be measured, too.
const node = "n1"

const slurmConf = `SlurmctldDebug=debug2
SlurmctldParameters=enable_configless
MaxNodeCount=16
`

// slurmResult is what was measured with one version.
type slurmResult struct {
	version string
	registrations
	waysDown
	changes edits
}

func measureSlurm(s settings, version string) (*slurmResult, error) {
	r := &slurmResult{version: version}
	if !s.Edits {
		if err := r.measureNode(s); err != nil {
			return nil, err
		}
	}
	var err error
	r.changes, err = measureEdits(s, version)
	return r, err
}

func (r *slurmResult) measureNode(s settings) error {
	c := &cluster{version: r.version, registered: make(chan moment, 16)}
	var err error
	c.Cluster, err = native.NewCluster(native.Options{Lower: s.Roots[r.version], Slurmlet: s.Slurmlet, Aliases: []string{node}, SlurmConf: slurmConf})
	if err != nil {
		return err
	}
	if err := c.Control(c.hear); err != nil {
		return err
	}
	if r.registrations, err = c.measureRegistrations(); err != nil {
		return err
	}
	if r.waysDown, err = c.measureWaysDown(); err != nil {
		return err
	}
	return c.Close()
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
