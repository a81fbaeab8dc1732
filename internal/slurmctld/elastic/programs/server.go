package programs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/unixsocket"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// mostPrograms are connected at once. slurmctld runs a PrologSlurmctld for each job that it starts; others
// wait in the kernel.
const mostPrograms = 4096

// Options are the surroundings that Serve needs.
type Options struct {
	RunDir string
	// UID and GID are slurmctld's user, who runs the programs and owns their socket.
	UID, GID int
	// Called has the nodes looked at: slurmctld has asked for nodes, or for their end.
	Called func()
	// Wait returns when a job need not wait for its nodes any more. allocated is when it had them.
	Wait func(ctx context.Context, job string, nodes hostlist.Set, allocated time.Time) planner.Outcome
	Log  func(slog.Level, string, ...slog.Attr)
}

// Serve answers the programs. The socket is SlurmUser's, whom slurmctld runs them as. Nothing is answered
// there but what the programs ask.
func Serve(o Options) (*http.Server, error) {
	if err := makeLinks(o.RunDir); err != nil {
		return nil, err
	}
	path := filepath.Join(o.RunDir, dirName, socketName)
	l, err := unixsocket.Listen(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Lchown(path, o.UID, o.GID); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot give the programs' socket to the user of slurmctld: %w", err), l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+notifyPath, o.serveNotify)
	mux.HandleFunc("POST "+waitPath, o.serveWait)
	server := &http.Server{
		Handler: bodiless(mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		MaxHeaderBytes: 1 << 20,
	}
	go func() { _ = server.Serve(unixsocket.Bound(l, mostPrograms)) }()
	return server, nil
}

// bodiless refuses bodies, for whose rest net/http would wait before it answers.
func bodiless(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, "want no body", http.StatusBadRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (o Options) serveNotify(w http.ResponseWriter, r *http.Request) {
	p := Program(r.URL.Query().Get("program"))
	switch p {
	case Resume, Suspend, ResumeFailed:
	default:
		http.Error(w, fmt.Sprintf("want resume, suspend or resume-failed, not %q", p), http.StatusBadRequest)
		return
	}
	o.Log(slog.LevelDebug, "slurmctld has run "+string(p))
	o.Called()
}

// serveWait answers when the job need not wait any more. Until then it says that the agent lives.
func (o Options) serveWait(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	asked := r.URL.Query()
	job, nodes := asked.Get("job"), asked.Get("nodes")
	if _, err := strconv.ParseUint(job, 10, 32); err != nil {
		http.Error(w, fmt.Sprintf("job: want a number, not %q", job), http.StatusBadRequest)
		return
	}
	list, err := hostlist.Parse(nodes)
	if err != nil {
		http.Error(w, fmt.Sprintf("nodes: cannot use %q: %v", nodes, err), http.StatusBadRequest)
		return
	}
	ended := make(chan planner.Outcome, 1)
	go func() { ended <- o.Wait(r.Context(), job, list.Set(), allocated(asked.Get("start"), now)) }()
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		select {
		case outcome := <-ended:
			if outcome == planner.TimeOver || outcome == planner.NoAnswer && r.Context().Err() == nil {
				o.Log(slog.LevelWarn, "a job waits for its nodes no longer by slurmlet: slurmctld itself looks for them every 30 s",
					slog.String("job", job), slog.String("why", string(outcome)))
			}
			fmt.Fprintln(w, outcome)
			return
		case <-beats.C:
			fmt.Fprintln(w)
			_ = http.NewResponseController(w).Flush() // the program has gone
		}
	}
}

// allocated is a time at which the job had its nodes. slurmctld gives the second (SLURM_JOB_START_TIME).
func allocated(start string, now time.Time) time.Time {
	seconds, err := strconv.ParseInt(start, 10, 64)
	if at := time.Unix(seconds+1, 0); err == nil && seconds > 0 && at.Before(now) {
		return at
	}
	return now
}
