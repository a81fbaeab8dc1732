package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/pod/unixsocket"
)

const (
	// webPatience is how long the page may take to read the facts of a large cluster.
	webPatience = time.Minute
	// factsWait is how long the page waits for slurmctld before it gets the last values.
	factsWait = 20 * time.Second
	// followersWait is for the agent's own goroutine that serves HTTP.
	followersWait = 2 * time.Second
	// mostPages ask at once; there is one, or its next one.
	mostPages = 4
	// mostWebConnections are open at once, each with a goroutine. Others wait in the kernel.
	mostWebConnections = 32
)

// serveWeb answers slurmlet-web at SLURMLET_WEB_SOCKET with the facts for the page. Whoever may connect there reads
// what every user of the cluster may read, and changes nothing.
func (a *Agent) serveWeb() (*http.Server, error) {
	if a.Config.WebSocket == "" {
		return nil, nil
	}
	l, err := listenWeb(a.Config.WebSocket)
	if err != nil {
		return nil, fmt.Errorf("SLURMLET_WEB_SOCKET: %w", err)
	}
	turns := make(chan struct{}, mostPages)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pagefacts.FactsPath, func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			a.writeFacts(w, r)
		default:
			http.Error(w, "others are being answered", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: webPatience, MaxHeaderBytes: 1 << 14}
	go func() { _ = server.Serve(unixsocket.Bound(l, mostWebConnections)) }()
	return server, nil
}

// listenWeb makes a socket for the agent's user and group. slurmlet-web is another user in that
// group (a pod's fsGroup), and so are the socket's directory and its files.
func listenWeb(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("cannot make the socket's directory: %w", err)
	}
	return unixsocket.ListenForGroup(path)
}

func (a *Agent) writeFacts(w http.ResponseWriter, r *http.Request) {
	soon, cancelSoon := context.WithTimeout(r.Context(), followersWait)
	defer cancelSoon()
	followers, unheard := a.ctld.Followers(soon)
	ctx, cancel := context.WithTimeout(r.Context(), factsWait)
	defer cancel()
	view := a.ctld.View(ctx)
	s := a.brief()
	facts := pagefacts.Facts{
		At: time.Now(), View: view, Conf: s.Conf, Followers: followers, FollowersUnknown: unheard != nil,
		Agent: pagefacts.Agent{
			Version: s.Version, State: string(s.State), Doing: s.Doing, Reason: s.Reason,
			Since: s.Since, Restarts: s.Restarts,
		},
	}
	if err := facts.Write(w); err != nil {
		a.log(slog.LevelDebug, "cannot answer slurmlet-web", slog.Any("error", err))
	}
}
