// Package charts holds what the Helm charts are checked with: `make charts`. Nothing of it is in a program.
package charts

// The directories of the charts under test: a cluster's, and the controller's.
const (
	chart           = "../../../charts/slurm"
	controllerChart = "../../../charts/slurmlet"
)

var charts = []string{chart, controllerChart}
