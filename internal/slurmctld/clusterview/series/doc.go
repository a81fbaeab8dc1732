// Package series makes Prometheus' text of a View: what slurmctld says, as metrics.
//
// The tables are to be read from top to bottom. Each row is a metric: its name, its help, and how
// it is computed.
//
//	native.go    the metrics that slurmctld has from 25.11 on, by its names, for every version
//	cluster.go   slurmlet_cluster_…: what Slurm has no metric for
//	exporter.go  slurm-exporter's metrics, by its names and in its units
//
// A View is counted once (counts.go), and what happens between Views is counted as it is seen
// (history.go). Texts keeps each text as long as its View is the last one (texts.go).
//
// A family of the View that slurmctld has never said has no metrics here, and never zeros. Series
// with names of users or accounts are there only where Options ask for them.
package series
