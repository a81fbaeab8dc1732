package controller

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slurmlet/slurmlet/internal/link/publichttp"
)

// serveHealth answers the kubelet and Prometheus. Everybody on the pod network reaches this port.
func (c *controller) serveHealth(version string) (*publichttp.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.ready() {
			http.Error(w, "it does not serve", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.metrics(version), promhttp.HandlerOpts{DisableCompression: true}))
	return publichttp.Listen(c.HealthAddress, mux, publichttp.Limits{
		Active: mostAsking, Timeout: 10 * time.Second,
		Report: func(err error) { c.log.Warn("a request to the health port failed", "error", err.Error()) },
	})
}

// mostAsking is how many connections the health port has at once.
const mostAsking = 256

func (c *controller) metrics(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slurmlet_controller_info", Help: "The controller's version.", ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	r.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info, figures{c},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "slurmlet_controller_leader", Help: "1 if this replica leads, which writes to Kubernetes.",
		}, func() float64 { return number(c.leads()) }),
	)
	return r
}
