package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// figures are the metrics that the parts count themselves.
type figures struct{ c *controller }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("slurmlet_controller_"+name, help, labels, nil)
}

var (
	ready      = describe("ready", "1 if an agent that comes gets its table.")
	clusters   = describe("clusters", "Clusters that have pods or readers.")
	peersNow   = describe("peers", "Pods in the tables of all clusters.")
	noPeers    = describe("pods_without_peer", "Pods with the cluster's label whose names no agent is told, by reason.", "reason")
	streams    = describe("streams", "Agents that read the table of their cluster.")
	strangers  = describe("strangers", "Connections that have shown no token yet.")
	began      = describe("streams_total", "Streams that began.")
	slow       = describe("slow_streams_total", "Streams that were ended because their agents did not read.")
	lines      = describe("lines_total", "Lines that were written to streams, by kind.", "kind")
	sent       = describe("sent_bytes_total", "Bytes that were written to streams.")
	evicted    = describe("evicted_strangers_total", "Connections of strangers that were ended for want of room.")
	denied     = describe("denied_requests_total", "Requests without a token that gives a right.")
	unknown    = describe("unjudged_requests_total", "Requests whose tokens could not be judged.")
	reported   = describe("reports_total", "Reports of slurmctld's agents that were taken.")
	notTaken   = describe("reports_not_taken_total", "Reports that had a fault or were too much, by reason. An event of slurmctld's pod names the cluster.", "reason")
	crowded    = describe("reports_ended_total", "Reports that were ended before they had come whole, for a later one of their pods or for want of room.")
	kept       = describe("reported_nodes", "Nodes of which slurmctlds' agents have told.")
	reviews    = describe("token_reviews_total", "TokenReviews that were sent to Kubernetes.")
	failed     = describe("token_reviews_failed_total", "Tokens about which Kubernetes gave no answer.")
	delayed    = describe("tokens_delayed_total", "Tokens that were not judged because their pods, or all, showed too many.")
	known      = describe("tokens_known", "Tokens that Kubernetes has taken and that are remembered.")
	signerEnd  = describe("ca_end_timestamp_seconds", "When the certificate authority ends.")
	leafEnd    = describe("certificate_end_timestamp_seconds", "When this replica's certificate ends.")
	patches    = describe("pod_patches_total", "Patches that mark pods as busy or idle.")
	notMarked  = describe("pod_patches_failed_total", "Patches that Kubernetes did not take.")
	rolled     = describe("rolled_pods_total", "Pods of old revisions that were deleted.")
	made       = describe("elastic_pods_made_total", "Pods that were made because Slurm wants their nodes.")
	ended      = describe("elastic_pods_deleted_total", "Pods of elastic node sets that were deleted.")
	refused    = describe("elastic_pods_refused_total", "Pods that Kubernetes has refused to make.")
	notAsked   = describe("elastic_requests_failed_total", "Requests for pods that Kubernetes did not answer, or deletions that it refused.")
	failing    = describe("elastic_pods_failing", "Nodes that Slurm wants and whose pods do not start, by reason.", "reason")
	waited     = describe("elastic_rate_wait_seconds_total", "Seconds that requests for pods have waited for the rate.")
	groups     = describe("queue_groups", "Groups of pods in Slurm's queue, by phase.", "phase")
	orders     = describe("queue_orders_total", "Orders that gateways were given, by kind.", "kind")
	placed     = describe("queue_pods_placed_total", "Pods that were put on the nodes of their Slurm jobs.")
	disrupted  = describe("queue_pods_deleted_total", "Pods that were deleted because their Slurm jobs had ended.")
	vain       = describe("queue_requests_failed_total", "Requests about such pods that Kubernetes refused or did not answer.")
	allFigures = []*prometheus.Desc{
		ready, clusters, peersNow, noPeers, streams, strangers, began, slow, lines, sent, evicted, denied, unknown, reported, notTaken, crowded, kept,
		reviews, failed, delayed, known, signerEnd, leafEnd, patches, notMarked, rolled, made, ended, refused, notAsked, failing, waited,
		groups, orders, placed, disrupted, vain,
	}
)

// Describe is prometheus.Collector's.
func (figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range allFigures {
		to <- d
	}
}

// Collect is prometheus.Collector's.
func (f figures) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(ready, number(f.c.ready()))
	s := f.c.server.Stats()
	gauge(clusters, float64(s.Clusters))
	gauge(peersNow, float64(s.Peers))
	for reason, n := range f.c.watcher.Faults() {
		gauge(noPeers, float64(n), reason)
	}
	gauge(streams, float64(s.Streams))
	gauge(strangers, float64(s.Strangers))
	count(began, s.StreamsTotal)
	count(slow, s.SlowTotal)
	count(lines, s.SnapshotsTotal, "snapshot")
	count(lines, s.DeltasTotal, "delta")
	count(lines, s.HeartbeatsTotal, "heartbeat")
	count(sent, s.BytesTotal)
	count(evicted, s.EvictedTotal)
	count(denied, s.DeniedTotal)
	count(unknown, s.UnknownTotal)
	count(reported, s.ReportsTotal)
	for reason, n := range s.NotTakenTotal {
		count(notTaken, n, reason)
	}
	count(crowded, s.CrowdedTotal)
	gauge(kept, float64(f.c.reports.Nodes()))
	t := f.c.reviewer.Stats()
	count(reviews, t.Reviews)
	count(failed, t.Failed)
	count(delayed, t.Delayed)
	gauge(known, float64(t.Known))
	if m := f.c.marker; m != nil {
		count(patches, m.Patches.Load())
		count(notMarked, m.Failed.Load())
	}
	if r := f.c.roller; r != nil {
		count(rolled, r.Deleted.Load())
	}
	if m := f.c.maker; m != nil {
		count(made, m.Made.Load())
		count(ended, m.Deleted.Load())
		count(refused, m.Refused.Load())
		count(notAsked, m.Failed.Load())
		to <- prometheus.MustNewConstMetric(waited, prometheus.CounterValue, time.Duration(m.Waited.Load()).Seconds())
		for reason, n := range m.Failing() {
			gauge(failing, float64(n), reason)
		}
	}
	f.collectQueue(gauge, count)
	signer, leaf := f.c.authority.Ends()
	gauge(signerEnd, seconds(signer))
	gauge(leafEnd, seconds(leaf))
}

// collectQueue has the figures of pods in Slurm's queue.
func (f figures) collectQueue(gauge func(*prometheus.Desc, float64, ...string), count func(*prometheus.Desc, uint64, ...string)) {
	b := f.c.bridge
	if b == nil {
		return
	}
	phases, sent := b.Stats()
	for phase, n := range phases {
		gauge(groups, float64(n), string(phase))
	}
	for kind, n := range sent {
		count(orders, n, string(kind))
	}
	count(placed, b.Bound.Load())
	count(disrupted, b.Ended.Load())
	count(vain, b.Failed.Load())
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// seconds is a time as Prometheus has it; 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
