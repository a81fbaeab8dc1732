package slurmctld

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/link/merge"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview/series"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/programs"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Pages returns the metrics of the cluster, nil where nobody collects them. own are the agent's own metrics, and report
// takes faults.
func (p *Pod) Pages(own func() []byte, report func(error)) *series.Pages {
	if p == nil || p.cluster == nil {
		return nil
	}
	return series.NewPages(series.PagesOptions{
		Collector: p.cluster, Options: series.Options{Users: p.MetricsUsers},
		Own: own, Report: report,
	})
}

// HandlePublic adds what the nodes' agents ask at the port: which configuration slurmctld has, and changes of their nodes.
func (p *Pod) HandlePublic(mux *http.ServeMux, verifier *proof.Verifier) {
	if p == nil {
		return
	}
	p.feed.Verifier, p.feed.Log = verifier, p.Log
	merger := &merge.Merger{Slurm: p.Client, Verifier: verifier, Kept: p.kept.Keep, Returns: p.kept.Returns, Done: p.Done, Log: p.Log}
	if p.nodeRecords != nil {
		merger.Made = p.nodeRecords.NodesChanged
	}
	mux.Handle("GET /conf", &p.feed)
	mux.Handle("GET "+proof.ChallengePath, verifier)
	mux.Handle("GET "+ask.Path, merger)
}

// Serve gives the port, on which HandlePublic's handlers are.
func (p *Pod) Serve(port *publichttp.Server) {
	if p != nil {
		p.feed.Serve(port)
	}
}

// HandleLocal adds what the agent's socket takes and answers. command makes a handler of a command.
func (p *Pod) HandleLocal(mux *http.ServeMux, command func(func(context.Context, *http.Request) error) http.HandlerFunc) {
	if p == nil {
		return
	}
	mux.HandleFunc("POST /reload", command(func(ctx context.Context, _ *http.Request) error { return p.reloader.TryNow(ctx, p.Post) }))
	mux.HandleFunc("GET /diff", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(p.reloader.Difference()) // the reader has gone
	})
	if p.elasticNodes != nil {
		mux.HandleFunc("GET /elastic", p.elasticNodes.Serve)
	}
}

// ServePrograms answers the programs that slurmctld runs. It returns nil where there are no elastic sets.
func (p *Pod) ServePrograms() (*http.Server, error) {
	if p == nil || p.waits == nil {
		return nil, nil
	}
	return programs.Serve(programs.Options{
		RunDir: p.RunDir, UID: p.UID, GID: p.GID, Log: p.Log,
		Called: func() {
			p.elasticNodes.Wake()
			p.waits.Wake()
		},
		Wait: func(ctx context.Context, job string, nodes hostlist.Set, allocated time.Time) planner.Outcome {
			return p.waits.Wait(ctx, job, nodes, allocated)
		},
	})
}

// View returns what slurmctld says of the cluster. It waits for slurmctld until ctx ends, and returns the last values
// then.
func (p *Pod) View(ctx context.Context) *clusterview.View {
	if p == nil || p.cluster == nil {
		return &clusterview.View{}
	}
	return p.cluster.Get(ctx, 0)
}

// Followers returns the names of the nodes whose agents follow slurmctld's agent.
func (p *Pod) Followers(ctx context.Context) ([]string, error) {
	if p == nil {
		return nil, nil
	}
	return p.feed.Followers(ctx)
}
