package sandbox

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// The elastic set: its nodes' names begin with it, and so is its partition called.
const (
	ElasticSet = "elastic"
	// elasticSets is where slurmctld's agent finds the sets.
	elasticSets = "/etc/slurmlet/elastic"
	// ElasticSets is slurmctld's volume of them.
	ElasticSets = "elastic-sets"
	elasticDisk = "1Gi"
)

// WithElastic is the same cluster with a partition of nodes that Slurm itself starts, and ends when they have been idle
// for a minute.
func (c Cluster) WithElastic(nodes int) Cluster {
	c.elastic = nodes
	c.SlurmConf += elasticConf
	return c
}

// Jobs that do not ask for the partition take the other nodes, as long as these are free. SuspendTimeout is a little
// longer than a pod may take to end, because nobody tells slurmctld's agent of a pod's end here.
const elasticConf = `SuspendTimeout=40
NodeSet=` + ElasticSet + ` Feature=` + ElasticSet + `
PartitionName=` + ElasticSet + ` Nodes=` + ElasticSet + ` SuspendTime=60 State=UP
`

// ElasticNodes are the pods that Slurm may want.
func (c Cluster) ElasticNodes() []PodSpec {
	var specs []PodSpec
	for i := range c.elastic {
		spec := c.node(fmt.Sprintf("%s-%d", ElasticSet, i), 1, 512*mebibyte)
		spec.Env["SLURMLET_ELASTIC"] = "yes"
		spec.Env["SLURMLET_STORAGE_LIMIT"] = elasticDisk
		specs = append(specs, spec)
	}
	return specs
}

// elasticVolume tells slurmctld's agent what these pods are.
func (c Cluster) elasticVolume() Volume {
	set, _ := json.Marshal(map[string]any{ // strings and a list always can be
		"nodes": fmt.Sprintf("%s-[0-%d]", ElasticSet, c.elastic-1), "cpuLimit": "1", "memoryLimit": strconv.Itoa(512 * mebibyte), "storageLimit": elasticDisk,
		"features": []string{ElasticSet}, "weight": "100",
	})
	return Volume{Name: ElasticSets, Path: elasticSets, Projected: true, Files: map[string]File{ElasticSet + ".json": {Data: set}}}
}
