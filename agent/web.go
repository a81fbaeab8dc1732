package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/page/slurmtoken"
	"github.com/slurmlet/slurmlet/internal/pod/unixsocket"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// DefaultWebSocket is where "slurmlet web" looks for slurmctld's agent.
const DefaultWebSocket = "/run/slurmlet-web/web.sock"

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

// serveWeb answers "slurmlet web" at SLURMLET_WEB_SOCKET: the facts for the page, and whose a token
// is. Whoever may connect there reads what every user of the cluster may read, and changes nothing.
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
	var key tokenKey
	mux.HandleFunc("GET "+pagefacts.UserPath, func(w http.ResponseWriter, r *http.Request) { a.serveUser(w, r, &key) })
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: webPatience, MaxHeaderBytes: 1 << 14}
	go func() { _ = server.Serve(unixsocket.Bound(l, mostWebConnections)) }()
	return server, nil
}

// listenWeb makes a socket for the agent's user and group. slurmlet web is another user in that
// group (a pod's fsGroup), and so are the socket's directory and its files.
func listenWeb(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("cannot make the socket's directory: %w", err)
	}
	l, err := unixsocket.Listen(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot share the socket: %w", err), l.Close())
	}
	return l, nil
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
		Agent: pagefacts.Agent{Version: s.Version, State: string(s.State), Doing: s.Doing, Reason: s.Reason, Since: s.Since, Restarts: s.Restarts},
	}
	if err := facts.Write(w); err != nil {
		a.log(slog.LevelDebug, "cannot answer slurmlet web", slog.Any("error", err))
	}
}

// serveUser judges a token. Only who has the key could make one, so the page has no key.
func (a *Agent) serveUser(w http.ResponseWriter, r *http.Request, k *tokenKey) {
	key, err := k.get(reconfig.LivePath(a.Config.RunDir), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	user, until, err := slurmtoken.Verify(r.Header.Get(pagefacts.TokenHeader), key, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, until.UTC().Format(time.RFC3339), user)
}

// tokenKey is the key that slurmctld judges tokens with. It is read anew every few seconds, and not
// for each token that a stranger makes up.
type tokenKey struct {
	lock  sync.Mutex
	until time.Time
	key   []byte
	err   error
}

const tokenKeyTime = 5 * time.Second

func (k *tokenKey) get(conf string, now time.Time) ([]byte, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	if !now.Before(k.until) {
		k.key, k.err = readTokenKey(conf)
		k.until = now.Add(tokenKeyTime)
	}
	return k.key, k.err
}

// readTokenKey is the key where slurmctld takes tokens, too. With PrivateData a user may not see what
// the page shows of others, and slurm.conf's faults could hide it, so then the page takes no token.
func readTokenKey(path string) ([]byte, error) {
	set, found := slurmconf.Read(slurmconf.Dir(filepath.Dir(path)), slurmconf.SlurmConf)
	conf := set.Conf(slurmconf.SlurmConf)
	if conf == nil || found.Err() != nil {
		return nil, errors.New("no token is taken, because slurm.conf has faults or cannot be read")
	}
	if private, _ := conf.Value("PrivateData"); private != "" && !strings.EqualFold(private, "none") {
		return nil, errors.New("no token is taken, because slurm.conf sets PrivateData")
	}
	types, _ := conf.Value("AuthAltTypes")
	if !slices.ContainsFunc(strings.Split(types, ","), func(one string) bool { return strings.TrimPrefix(strings.TrimSpace(one), "auth/") == "jwt" }) {
		return nil, errors.New("no token is taken, because slurm.conf has no auth/jwt in AuthAltTypes")
	}
	parameters, _ := conf.Value("AuthAltParameters")
	for one := range strings.SplitSeq(parameters, ",") {
		if key, found := strings.CutPrefix(strings.TrimSpace(one), "jwt_key="); found {
			return os.ReadFile(key)
		}
	}
	return nil, errors.New("no token is taken, because slurm.conf has no jwt_key in AuthAltParameters")
}
