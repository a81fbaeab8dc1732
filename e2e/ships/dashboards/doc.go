// Command dashboards writes the Grafana dashboards of charts/slurm/dashboards from the tables of
// this package. A test holds that what lies there is what the tables make.
//
//	go run ./e2e/ships/dashboards
package main
