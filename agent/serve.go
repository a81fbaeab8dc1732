package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/pod/unixsocket"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview/series"
	"github.com/slurmlet/slurmlet/internal/slurmd/usage"
)

// SocketName is the agent's socket in SLURMLET_RUN_DIR: the whole status and commands over
// HTTP, for root (or the agent's user) alone.
const SocketName = "agent.sock"

// servers are the port, which strangers reach, the socket, and the sockets of slurmlet-web and of
// slurmctld's programs, nil where there are none.
type servers struct {
	port                  *publichttp.Server
	socket, web, programs *http.Server
}

const (
	// mostVisitors is how many connections the port has at most that ask; those that wait for
	// slurmctld's configuration are not counted. With 10,000 nodes that ask at once, a
	// thousand are on their way at the same time.
	mostVisitors, mostAtSlurmctld = 1 << 8, 1 << 10
	// visitPatience is how long a stranger may take to ask, and to read the answer.
	visitPatience = 10 * time.Second
)

// serve answers on SLURMLET_LISTEN and on the agent's socket.
func (a *Agent) serve() (servers, error) {
	local, err := unixsocket.Listen(filepath.Join(a.Config.RunDir, SocketName))
	if err != nil {
		return servers{}, err
	}
	limits := publichttp.Limits{Active: mostVisitors, Timeout: visitPatience, WaitTimeout: confsync.LongestWait, Report: func(err error) {
		a.log(slog.LevelError, "the agent's port", slog.Any("error", err))
	}}
	if a.life.Reloads {
		limits.Active, limits.Waiting = mostAtSlurmctld, confsync.MostUnknown
	}
	if a.slurmdNode.Usage() != nil {
		limits.Waiting, limits.WaitTimeout = usage.MostWaiting, visitPatience
	}
	verifier := &proof.Verifier{Keys: a.keys.Ring}
	cluster := a.ctld.Pages(a.ownMetrics, limits.Report)
	port, err := publichttp.Listen(a.Config.Listen, a.publicHandler(verifier, cluster), limits)
	if err != nil {
		return servers{}, errors.Join(fmt.Errorf("SLURMLET_LISTEN: %w", err), local.Close())
	}
	a.ctld.Serve(port)
	web, err := a.serveWeb()
	if err != nil {
		return servers{}, errors.Join(err, port.Close(), local.Close())
	}
	programs, err := a.ctld.ServePrograms()
	if err != nil {
		return servers{}, errors.Join(err, port.Close(), local.Close())
	}
	socket := &http.Server{Handler: a.localHandler(cluster), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	go func() { _ = socket.Serve(local) }()
	return servers{port, socket, web, programs}, nil
}

func (s servers) close() {
	_ = errors.Join(s.port.Close(), s.socket.Close()) // the process ends
	for _, one := range []*http.Server{s.web, s.programs} {
		if one != nil {
			_ = one.Close()
		}
	}
}

// handler answers probes and whoever asks for numbers.
func (a *Agent) handler(probe func(good func(Status) bool) http.HandlerFunc, metrics http.HandlerFunc) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", probe(func(s Status) bool { return s.State != supervisor.Exited }))
	mux.HandleFunc("GET /readyz", probe(Status.Serving))
	mux.HandleFunc("GET /startupz", probe(func(s Status) bool { return s.Started }))
	mux.HandleFunc("GET /metrics", metrics)
	return mux
}

// serveMetrics tells the status where nothing of the machine is read.
func (a *Agent) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", exposition.ContentType)
	_ = a.counted().WriteMetrics(w) // the reader has gone
}

// publicHandler is for the port, which everybody may reach. It tells no secret and no text of a job's
// user. Metrics name jobs and users only where SLURMLET_JOB_METRICS and SLURMLET_METRICS_USERS ask
// for that. What strangers ask costs little, however many they are. slurmctld's agent asks slurmctld at
// most once in SLURMLET_CLUSTER_INTERVAL, and all of them get the same text.
func (a *Agent) publicHandler(verifier *proof.Verifier, cluster *series.Pages) *http.ServeMux {
	metrics := http.HandlerFunc(a.serveMetrics)
	if u := a.slurmdNode.Usage(); u != nil {
		metrics = u.ServePort
	}
	if cluster != nil {
		metrics = cluster.Serve(series.Native)
	}
	mux := a.handler(a.publicProbe, metrics)
	if cluster != nil {
		mux.HandleFunc("GET "+series.ExporterPath, cluster.Serve(series.Exporter))
	}
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = a.brief().public().writeJSON(w)
	})
	a.ctld.HandlePublic(mux, verifier)
	return mux
}

// ownMetrics are the agent's.
func (a *Agent) ownMetrics() []byte {
	var b bytes.Buffer
	_ = a.counted().WriteMetrics(&b) // to memory
	return b.Bytes()
}

// localHandler tells everything and takes commands: who may use the socket is root, or the
// agent's own user.
func (a *Agent) localHandler(cluster *series.Pages) http.Handler {
	metrics := http.HandlerFunc(a.serveMetrics)
	if u := a.slurmdNode.Usage(); u != nil {
		metrics = u.ServeSocket
	}
	if cluster != nil {
		metrics = cluster.ServeLocally(series.Native)
	}
	mux := a.handler(a.probe, metrics)
	if cluster != nil {
		mux.HandleFunc("GET "+series.ExporterPath, cluster.ServeLocally(series.Exporter))
	}
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = a.Status().WriteJSON(w)
	})
	if a.life.Registers {
		mux.HandleFunc("POST /drain", a.handleCommand(a.slurmdNode.Drain))
		mux.HandleFunc("POST /resume", a.handleCommand(a.slurmdNode.Resume))
		mux.HandleFunc("POST /deadline", a.handleCommand(a.slurmdNode.SetDeadline))
	}
	a.ctld.HandleLocal(mux, a.handleCommand)
	return mux
}

// publicProbe says in a word what the status code means.
func (a *Agent) publicProbe(good func(Status) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		a.slurmdNode.AtProbe() // once a minute, whoever asks
		s := a.brief()
		if !good(s) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, s.State)
	}
}

func (a *Agent) probe(good func(Status) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		a.slurmdNode.AtProbe()
		s := a.brief()
		if !good(s) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, s.State, s.Doing, s.Reason)
		for _, one := range s.Services {
			fmt.Fprintln(w, one.Name, one.State, one.Reason)
		}
		if s.Sack.Crowded() {
			fmt.Fprintln(w, "sack.socket crowded:", s.Sack)
		}
	}
}

// ErrNoAgent says that no agent answers on the socket.
var ErrNoAgent = errors.New("no agent answers")

// Ask gets a path, such as /status, from the agent whose sockets are in dir.
func Ask(ctx context.Context, dir, path string) (*http.Response, error) {
	return send(ctx, dir, http.MethodGet, path)
}

// Tell posts to a path, such as /drain, of the agent whose sockets are in dir.
func Tell(ctx context.Context, dir, path string) (*http.Response, error) {
	return send(ctx, dir, http.MethodPost, path)
}

func send(ctx context.Context, dir, method, path string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(dir, SocketName))
		},
	}}
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAgent, err)
	}
	return response, nil
}
