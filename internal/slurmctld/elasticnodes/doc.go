// Package elasticnodes keeps the records of elastic nodes as their sets say, in slurmctld's agent: it reads the sets,
// looks at slurmctld's nodes, and makes the changes that internal/slurmctld/elastic plans. It reports to slurmlet's controller which
// nodes Slurm wants.
package elasticnodes
