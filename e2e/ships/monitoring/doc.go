// Package monitoring tests the alerts and dashboards of charts/slurm: that they ask for metrics that
// the agents have, that each alert fires by its cause and not without it (promtool), and with the
// tag e2e, that a real Prometheus that scrapes a real cluster has data for each query.
//
//	HELM=… go test ./e2e/ships/monitoring
//	go test -tags e2e -v ./e2e/ships/monitoring
package monitoring
