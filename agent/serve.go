package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SocketName is the agent's socket in SLURMLET_RUN_DIR: what is served over
// HTTP, for root (or the agent's user) alone.
const SocketName = "agent.sock"

type servers []*http.Server

// serve answers on SLURMLET_LISTEN and on the agent's socket.
func (a *Agent) serve() (servers, error) {
	tcp, err := net.Listen("tcp", a.Config.Listen)
	if err != nil {
		return nil, fmt.Errorf("SLURMLET_LISTEN: %w", err)
	}
	local, err := listenSocket(filepath.Join(a.Config.RunDir, SocketName))
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	var all servers
	for listener, handler := range map[net.Listener]http.Handler{tcp: a.handler(), local: a.localHandler()} {
		// Strangers reach the port: none may hold a connection for long.
		s := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
		go func() { _ = s.Serve(listener) }()
		all = append(all, s)
	}
	return all, nil
}

// listenSocket replaces the socket of an agent that is gone; the directory
// is the agent's own. Nobody else can connect, not even for a moment: the name
// has the socket's mode at once (net/unix/af_unix.c, unix_bind_bsd).
func listenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace the agent's socket: %w", err)
	}
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		closed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(closed, err)
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot make the agent's socket: %w", err)
	}
	return l, nil
}

func (s servers) close() {
	for _, server := range s {
		_ = server.Close()
	}
}

// handler answers the kubelet's probes and whoever asks for the status or its
// numbers.
func (a *Agent) handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", a.probe(func(s Status) bool { return s.State != Exited }))
	mux.HandleFunc("GET /readyz", a.probe(Status.Serving))
	mux.HandleFunc("GET /startupz", a.probe(func(s Status) bool { return s.Started }))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = a.Status().WriteJSON(w) // the reader has gone
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metricsType)
		_ = a.Status().WriteMetrics(w)
	})
	if a.life.reloads {
		mux.HandleFunc("GET /conf", a.conf.feed.serve)
	}
	return mux
}

// localHandler also takes commands: who may use the socket is root, or the
// agent's own user.
func (a *Agent) localHandler() http.Handler {
	mux := a.handler()
	if a.life.registers {
		mux.HandleFunc("POST /drain", a.command(a.drainCommand))
		mux.HandleFunc("POST /resume", a.command(a.resumeCommand))
	}
	if a.life.reloads {
		mux.HandleFunc("POST /reload", a.command(a.reloadCommand))
		mux.HandleFunc("GET /diff", a.serveDiff)
	}
	return mux
}

func (a *Agent) probe(good func(Status) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s := a.brief()
		if !good(s) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, s.State, s.Doing, s.Reason)
		for _, one := range s.Services {
			fmt.Fprintln(w, one.Name, one.State, one.Reason)
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
