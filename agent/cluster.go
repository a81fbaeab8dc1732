package agent

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview/series"
)

// newCollector asks slurmctld for those who want to know what the cluster does.
func (a *Agent) newCollector(scontrol slurm.Scontrol) *clusterview.Collector {
	scontrol.Env = slices.Concat(scontrol.Env, clusterview.Env)
	return clusterview.New(clusterview.Options{
		Stream: scontrol.Stream, Interval: a.Config.ClusterInterval, Shares: a.Config.MetricsUsers > 0, Timeout: a.questionLimit, Log: a.log,
	})
}

// exporterPath has slurm-exporter's names.
const exporterPath = "/metrics/slurm-exporter"

// clusterMetrics answers with what slurmctld tells of the cluster. Clients wait while slurmctld is
// asked, and all of them get the same text. The agent's own metrics follow it, which are as they are
// when the client is answered.
type clusterMetrics struct {
	collector *clusterview.Collector
	texts     *series.Texts
	own       func() []byte
	report    func(error)
	// asking are the answers that are being made, with the clients that wait for them. Only the
	// port's goroutine touches it.
	asking map[clusterScrape]*publichttp.Waiters
}

// clusterScrape is what a client wants. Clients that want the same are answered together.
type clusterScrape struct {
	page     series.Page
	gzip     bool
	patience time.Duration
}

// scrapePatience is how long a client waits for slurmctld before it gets the last values. That is
// less than Prometheus waits for the agent, unless Prometheus says that it waits less.
const scrapePatience = 8 * time.Second

// patienceStep bounds how many clients with a patience of their own there can be.
const patienceStep = 100 * time.Millisecond

// patienceHeader has how long Prometheus waits, in seconds.
const patienceHeader = "X-Prometheus-Scrape-Timeout-Seconds"

func scrapeOf(page series.Page, r *http.Request) clusterScrape {
	patience := scrapePatience
	if seconds, err := strconv.ParseFloat(r.Header.Get(patienceHeader), 64); err == nil && seconds > 0 && seconds < 10 {
		patience = max(time.Duration(seconds*0.8*float64(time.Second)).Truncate(patienceStep), patienceStep)
	}
	return clusterScrape{page, series.AcceptsGzip(r.Header), patience}
}

// serve is the handler of a page. On the agent's port it computes nothing itself, and waits for
// nobody: a text that is not there yet is made elsewhere.
func (c *clusterMetrics) serve(page series.Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		want := scrapeOf(page, r)
		if v := c.collector.Fresh(); v != nil {
			if text := c.texts.Have(v, want.page, want.gzip); text != nil {
				c.reply(w, want, text)
				return
			}
		}
		server := publichttp.ServerOf(w)
		if waiting := c.asking[want]; waiting != nil {
			waiting.Wait(w)
			return
		}
		waiting := new(publichttp.Waiters)
		waiting.Wait(w)
		c.asking[want] = waiting
		go func() {
			text := c.make(context.Background(), want)
			server.Do(func() {
				delete(c.asking, want)
				server.AnswerAll(waiting, func(w http.ResponseWriter) { c.reply(w, want, text) })
			})
		}()
	}
}

// serveLocally is the handler of a page on the agent's socket, where each client has a goroutine.
func (c *clusterMetrics) serveLocally(page series.Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		want := scrapeOf(page, r)
		c.reply(w, want, c.make(r.Context(), want))
	}
}

// make waits for slurmctld, but not longer than the client does. After a fault of ours it says that
// nothing is known (slurmlet_cluster_up 0).
func (c *clusterMetrics) make(ctx context.Context, want clusterScrape) *series.Text {
	ctx, cancel := context.WithTimeout(ctx, want.patience)
	defer cancel()
	if text := c.makeOf(func() *clusterview.View { return c.collector.Get(ctx, 0) }, want); text != nil {
		return text
	}
	return c.makeOf(func() *clusterview.View { return new(clusterview.View) }, want)
}

// makeOf outlives a fault of ours, and returns nil then: this is the process that all others depend on.
func (c *clusterMetrics) makeOf(view func() *clusterview.View, want clusterScrape) (text *series.Text) {
	defer func() {
		if fault := recover(); fault != nil {
			c.report(fmt.Errorf("cannot make the metrics of the cluster: %v", fault))
		}
	}()
	return c.texts.Make(view(), want.page, want.gzip)
}

// reply writes a text, and the agent's own metrics. Without a text they are all that there is.
func (c *clusterMetrics) reply(w http.ResponseWriter, want clusterScrape, text *series.Text) {
	var own []byte
	if want.page == series.Native {
		own = c.own()
	}
	if text == nil {
		text = new(series.Text)
	}
	text.SetHeader(w.Header())
	publichttp.Share(w, text.Body())
	_, _ = w.Write(text.Tail(own)) // the reader has gone
}

// ownMetrics are the agent's.
func (a *Agent) ownMetrics() []byte {
	var b bytes.Buffer
	_ = a.counted().WriteMetrics(&b) // to memory
	return b.Bytes()
}
