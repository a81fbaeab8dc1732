package series

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// ExporterPath is where HTTP has the page with slurm-exporter's names.
const ExporterPath = "/metrics/slurm-exporter"

// Pages answers over HTTP with what slurmctld says of the cluster. Clients wait while slurmctld is
// asked, and all of them get the same text. The agent's own metrics follow it, which are as they are
// when the client is answered.
type Pages struct {
	PagesOptions
	texts *Texts
	// asking are the answers that are being made, with the clients that wait for them. Only the
	// port's goroutine touches it.
	asking map[scrape]*publichttp.Waiters
}

// PagesOptions are the surroundings of Pages.
type PagesOptions struct {
	Options
	Collector *clusterview.Collector
	// Own returns the agent's own metrics, as they are now.
	Own func() []byte
	// Report takes a fault in the making of a text. The client is answered all the same.
	Report func(error)
}

// NewPages makes the pages of a collector.
func NewPages(o PagesOptions) *Pages {
	return &Pages{PagesOptions: o, texts: NewTexts(o.Options), asking: map[scrape]*publichttp.Waiters{}}
}

// scrape is what a client wants. Clients that want the same are answered together.
type scrape struct {
	page     Page
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

func scrapeOf(page Page, r *http.Request) scrape {
	patience := scrapePatience
	if seconds, err := strconv.ParseFloat(r.Header.Get(patienceHeader), 64); err == nil && seconds > 0 && seconds < 10 {
		patience = max(time.Duration(seconds*0.8*float64(time.Second)).Truncate(patienceStep), patienceStep)
	}
	return scrape{page, AcceptsGzip(r.Header), patience}
}

// Serve returns the handler of a page. On the agent's port it computes nothing itself, and waits for
// nobody: a text that is not there yet is made elsewhere.
func (c *Pages) Serve(page Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		want := scrapeOf(page, r)
		if v := c.Collector.Fresh(); v != nil {
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

// ServeLocally returns the handler of a page on the agent's socket, where each client has a goroutine.
func (c *Pages) ServeLocally(page Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		want := scrapeOf(page, r)
		c.reply(w, want, c.make(r.Context(), want))
	}
}

// make waits for slurmctld, but not longer than the client does. After a fault of ours it says that
// nothing is known (slurmlet_cluster_up 0).
func (c *Pages) make(ctx context.Context, want scrape) *Text {
	ctx, cancel := context.WithTimeout(ctx, want.patience)
	defer cancel()
	if text := c.makeOf(func() *clusterview.View { return c.Collector.Get(ctx, 0) }, want); text != nil {
		return text
	}
	return c.makeOf(func() *clusterview.View { return new(clusterview.View) }, want)
}

// makeOf outlives a fault of ours, and returns nil then: this is the process that all others depend on.
func (c *Pages) makeOf(view func() *clusterview.View, want scrape) (text *Text) {
	defer func() {
		if fault := recover(); fault != nil {
			c.Report(fmt.Errorf("cannot make the metrics of the cluster: %v", fault))
		}
	}()
	return c.texts.Make(view(), want.page, want.gzip)
}

// reply writes a text, and the agent's own metrics. Without a text they are all that there is.
func (c *Pages) reply(w http.ResponseWriter, want scrape, text *Text) {
	var own []byte
	if want.page == Native {
		own = c.Own()
	}
	if text == nil {
		text = new(Text)
	}
	text.SetHeader(w.Header())
	publichttp.Share(w, text.Body())
	_, _ = w.Write(text.Tail(own)) // the reader has gone
}
