package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Program is one that slurmctld runs, as slurm.conf names it: a link in SLURMLET_RUN_DIR/programs to
// slurmlet.
type Program string

// The programs. Resume, Suspend and ResumeFailed tell the agent that slurmctld has asked for nodes, or for
// their end. The agent then looks itself: slurmctld repeats no call.
const (
	Resume       Program = "resume"
	Suspend      Program = "suspend"
	ResumeFailed Program = "resume-failed"
	// WaitNodes ends when a job's nodes are up.
	WaitNodes Program = "wait-nodes"
)

// Programs lists them.
func Programs() []Program { return []Program{Resume, Suspend, ResumeFailed, WaitNodes} }

// programsDir is in SLURMLET_RUN_DIR, and programsSocket in there.
const (
	programsDir    = "programs"
	programsSocket = "agent.sock"
)

// What the agent answers on the socket.
const (
	stirPath = "/stir"
	waitPath = "/wait-nodes"
)

const (
	// mostPrograms are connected at once. slurmctld runs a PrologSlurmctld for each job that it starts;
	// others wait in the kernel.
	mostPrograms = 4096
	// programBeat is how often wait-nodes hears that the agent lives, and programPatience how long it
	// believes that.
	programBeat, programPatience = 10 * time.Second, 30 * time.Second
	// stirLimit is for the programs that slurmctld waits for.
	stirLimit = 5 * time.Second
	// connectLimit and connectPause are for an agent that has no place for another connection.
	connectLimit, connectPause = 2 * time.Second, 100 * time.Millisecond
)

// makeProgramLinks makes the links, each at once: slurmctld may run them at any time.
func makeProgramLinks(runDir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find slurmlet's own program: %w", err)
	}
	dir := filepath.Join(runDir, programsDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the directory of slurmctld's programs: %w", err)
	}
	for _, p := range Programs() {
		path := filepath.Join(dir, string(p))
		next := path + ".new"
		if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot link slurmctld's program: %w", err)
		}
		if err := errors.Join(os.Symlink(self, next), os.Rename(next, path)); err != nil {
			return fmt.Errorf("cannot link slurmctld's program: %w", err)
		}
	}
	return nil
}

// servePrograms answers the programs, nil where there are no sets. The socket is SlurmUser's, whom
// slurmctld runs them as. Nothing is answered there but what the programs ask.
func (a *Agent) servePrograms() (*http.Server, error) {
	if a.waits == nil {
		return nil, nil
	}
	if err := makeProgramLinks(a.Config.RunDir); err != nil {
		return nil, err
	}
	path := filepath.Join(a.Config.RunDir, programsDir, programsSocket)
	l, err := listenSocket(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Lchown(path, a.daemon.uid(), a.daemon.gid()); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot give the programs' socket to the user of slurmctld: %w", err), l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+stirPath, a.serveStir)
	mux.HandleFunc("POST "+waitPath, a.serveWait)
	server := &http.Server{Handler: bodiless(mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 20}
	go func() { _ = server.Serve(bounded{l, make(chan struct{}, mostPrograms)}) }()
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

func (a *Agent) serveStir(w http.ResponseWriter, r *http.Request) {
	p := Program(r.URL.Query().Get("program"))
	switch p {
	case Resume, Suspend, ResumeFailed:
	default:
		http.Error(w, fmt.Sprintf("want resume, suspend or resume-failed, not %q", p), http.StatusBadRequest)
		return
	}
	a.log(slog.LevelDebug, "slurmctld has run "+string(p))
	a.elasticNodes.Rouse()
	a.waits.Stir()
}

// serveWait answers when the job need not wait any more. Until then it says that the agent lives.
func (a *Agent) serveWait(w http.ResponseWriter, r *http.Request) {
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
	ended := make(chan elastic.Outcome, 1)
	go func() { ended <- a.waits.Wait(r.Context(), job, list.Set(), allocated(asked.Get("start"), now)) }()
	beat := time.NewTicker(programBeat)
	defer beat.Stop()
	for {
		select {
		case outcome := <-ended:
			if outcome == elastic.TimeOver || outcome == elastic.CannotTell && r.Context().Err() == nil {
				a.log(slog.LevelWarn, "a job waits for its nodes no longer by slurmlet: slurmctld itself looks for them every 30 s",
					slog.String("job", job), slog.String("why", string(outcome)))
			}
			fmt.Fprintln(w, outcome)
			return
		case <-beat.C:
			fmt.Fprintln(w)
			_ = http.NewResponseController(w).Flush() // the program has gone
		}
	}
}

// allocated is a time at which the job had its nodes. slurmctld tells the second (SLURM_JOB_START_TIME).
func allocated(start string, now time.Time) time.Time {
	seconds, err := strconv.ParseInt(start, 10, 64)
	if at := time.Unix(seconds+1, 0); err == nil && seconds > 0 && at.Before(now) {
		return at
	}
	return now
}

// Stir tells the agent that slurmctld has run a program; dir has the program's link.
func Stir(ctx context.Context, dir string, p Program) error {
	ctx, cancel := context.WithTimeout(ctx, stirLimit)
	defer cancel()
	conn, err := dialProgram(ctx, dir)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+stirPath+"?program="+string(p), nil)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAgent, err)
	}
	defer response.Body.Close()
	return refusedProgram(response)
}

// waiter reads what the agent answers, and succeeds whatever that is.
const waiter = "while read -r line; do :; done; exit 0"

// WaitForNodes ends the process when a job need not wait for its nodes any more, or when the agent is
// silent for programPatience. It returns only errors, before that: slurmctld itself has to look for the
// nodes then.
//
// slurmctld runs one for each job that waits. A shell takes the process over, because that has 0.2 MB of
// its own, and slurmlet 2.4 MB (smaps_rollup).
func WaitForNodes(ctx context.Context, dir, query string) error {
	limited, cancel := context.WithTimeout(ctx, stirLimit)
	defer cancel()
	conn, err := dialProgram(limited, dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s?%s HTTP/1.0\r\n\r\n", waitPath, query); err != nil {
		return fmt.Errorf("%w: %w", ErrNoAgent, err)
	}
	file, err := conn.File() // whose reads block
	if err != nil {
		return fmt.Errorf("cannot wait for the agent: %w", err)
	}
	defer file.Close()
	patience := unix.NsecToTimeval(int64(programPatience))
	err = errors.Join(unix.SetsockoptTimeval(int(file.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience), unix.Dup2(int(file.Fd()), 0))
	if err == nil {
		err = unix.Exec("/bin/sh", []string{string(WaitNodes), "-c", waiter}, nil)
	}
	return fmt.Errorf("cannot wait for the agent: %w", err)
}

// dialProgram tries again where the agent has no place for another connection, or starts.
func dialProgram(ctx context.Context, dir string) (*net.UnixConn, error) {
	for began := time.Now(); ; {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", filepath.Join(dir, programsSocket))
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if ctx.Err() != nil || time.Since(began) >= connectLimit {
			return nil, fmt.Errorf("%w: %w", ErrNoAgent, err)
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
		}
	}
}

// refusedProgram is the agent's own word.
func refusedProgram(response *http.Response) error {
	if response.StatusCode == http.StatusOK {
		return nil
	}
	text := make([]byte, 256)
	n, _ := response.Body.Read(text)
	return fmt.Errorf("the agent answers %s: %s", response.Status, text[:n])
}
