// Package charts holds what the Helm charts are checked with: `make charts`. Nothing of it is in a program.
package charts

// chart is the directory of the chart under test.
const chart = "../../charts/slurm"
