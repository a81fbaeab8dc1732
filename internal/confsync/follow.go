package confsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/watch"
)

// FollowerOptions are a Follower's surroundings.
type FollowerOptions struct {
	// Controller is host:port of slurmctld, several separated by commas; AgentPort is that of
	// the agents beside them.
	Controller string
	AgentPort  int
	// Program is the daemon, Copy the directory in which it keeps the configuration.
	Program, Copy string
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	// Ready says whether the daemon serves.
	Ready func() bool
	// Restart has the daemon restarted, which then fetches the configuration.
	Restart func()
	// Lost reports that slurmctld's agent has gone.
	Lost func()
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
}

// Follower compares what slurmd or sackd has of the cluster's configuration with
// what slurmctld's agent announces. slurmctld pushes a configuration once: a daemon
// that misses it, or gets one that is taken back, keeps what it has until it is
// restarted.
type Follower struct {
	FollowerOptions
	files *watch.Watcher
	// unwatched: the kernel cannot report changes of the copy.
	unwatched bool
	announced manifest
	// restarts counts those for the present announcement.
	restarts int
	// restarted is the hash of the set that slurmctld's agent had the daemon restarted for
	// last, at restartedAt.
	restarted   string
	restartedAt time.Time
	fault       atomic.Pointer[string]
}

const (
	// pushTime is what a push may need on its way through the tree; as much is added
	// by chance, for thousands that fetch at once.
	pushTime = 5 * time.Second
	// maxRestarts is how often one announcement makes the daemon start anew.
	maxRestarts = 3
	// restartTime is how long a restart that slurmctld's agent has asked for may take, until
	// it may ask again.
	restartTime = time.Minute
)

// NewFollower makes a Follower.
func NewFollower(o FollowerOptions) *Follower { return newFollower(o, watch.Options{}) }

func newFollower(o FollowerOptions, w watch.Options) *Follower {
	f := &Follower{FollowerOptions: o}
	w.Done, w.Calm = o.Done, f.patience
	w.Changed = func() {
		if f.look() {
			f.files.Look()
		}
	}
	f.files = watch.New(w)
	return f
}

// Run follows until Done.
func (f *Follower) Run() {
	go f.poll(func(m manifest) bool { return f.files.Do(func() { f.take(m) }) })
	f.files.Run()
}

// Fault is why the daemon has another configuration than slurmctld; empty when it has not.
func (f *Follower) Fault() string {
	if fault := f.fault.Load(); fault != nil {
		return *fault
	}
	return ""
}

// take gets an announcement. The daemon makes its copy, so it may not be there before.
func (f *Follower) take(m manifest) {
	f.hear(m)
	if err := f.files.Add(f.Copy); err != nil && !errors.Is(err, fs.ErrNotExist) && !f.unwatched {
		f.unwatched = true
		f.Log(slog.LevelWarn, "the kernel cannot tell of changes of the copy of the configuration: it is looked at every "+watch.Every.String(), slog.Any("error", err))
		f.files.Tick(watch.Every)
	}
	f.files.Look()
}

func (f *Follower) hear(m manifest) {
	if m.restart != nil {
		f.restartFor(m)
		return
	}
	if m.hash != f.restarted {
		f.restarted = ""
	}
	if m.hash != f.announced.hash {
		f.restarts = 0
	}
	f.announced = m
}

// restartFor restarts slurmd, which then starts with what slurmctld has now: it has not
// followed. The same may be heard twice, by a question that is open as well.
func (f *Follower) restartFor(m manifest) {
	if f.restarted == m.hash && time.Since(f.restartedAt) < restartTime {
		return
	}
	f.restarted, f.restartedAt, f.announced = m.hash, time.Now(), m
	select {
	case <-time.After(rand.N(*m.restart + 1)):
		f.Restart()
	case <-f.Done:
	}
}

// patience grows from restart to restart.
func (f *Follower) patience() time.Duration {
	wait := pushTime << (2 * f.restarts)
	return wait + rand.N(wait)
}

// look has the daemon restarted if it has not what it should have, and says whether
// it is to be looked at again. While slurmctld tries a configuration, its agent
// does not answer: only what it says then counts, and only if nothing comes after it.
func (f *Follower) look() bool {
	if !f.differs() {
		return false
	}
	if _, err := f.ask(); err != nil {
		return true
	}
	select {
	case <-f.Done:
		return false
	case <-time.After(f.patience()):
	}
	if news, err := f.ask(); news || err != nil {
		return true
	}
	return f.differs() && f.restart()
}

// ask says whether another configuration has been announced.
func (f *Follower) ask() (news bool, err error) {
	m, err := f.get("")
	if err != nil {
		return false, err
	}
	news = m.hash != f.announced.hash || m.restart != nil
	f.hear(m)
	return news, nil
}

func (f *Follower) differs() bool {
	differs := f.announced.hash != "" && f.announced.differs(confset.Contents(f.Copy, nil))
	if !differs {
		f.fault.Store(nil)
	}
	return differs
}

func (f *Follower) restart() bool {
	switch {
	case !f.Ready():
		return true
	case f.restarts == maxRestarts:
		fault := fmt.Sprintf("%s does not get slurmctld's configuration, in %d starts", f.Program, f.restarts)
		f.fault.Store(&fault)
		f.Log(slog.LevelError, fault, slog.String("hash", f.announced.hash))
		return false
	}
	f.restarts++
	f.Restart()
	return true
}

// poll asks slurmctld's agent for announcements, until take returns false. An agent that is
// not there, or older, is asked again after a while.
func (f *Follower) poll(take func(manifest) bool) {
	last, met := "", false
	for failures := 0; ; {
		m, err := f.get(last)
		switch {
		case err == nil:
			failures, last, met = 0, m.hash, true
			if !take(m) {
				return
			}
			continue
		case errors.Is(err, errNoNews):
			failures = 0
		case errors.Is(err, errHungUp):
			failures = 0
			f.Lost()
		case met && failures < mostLost: // it may have been back between two questions
			f.Lost()
		}
		pause := backoff.Grow(time.Second, failures, time.Minute)
		failures++
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-f.Done:
			return
		}
	}
}

// mostLost is how many questions in vain, ten minutes, say that slurmctld is away.
// Where its agent does not come back, slurmctld is not looked at for ever.
const mostLost = 12

var (
	// errNoNews: nothing else was announced within askAgain.
	errNoNews = errors.New("no news")
	// errHungUp: slurmctld's agent was there, and is gone.
	errHungUp = errors.New("slurmctld's agent has hung up")
)

// get returns when the announced configuration is unlike the one named.
func (f *Follower) get(unlike string) (manifest, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askAgain)
	defer cancel()
	var faults []error
	for address := range strings.SplitSeq(f.Controller, ",") {
		host, _, _ := net.SplitHostPort(address)
		m, err := getManifest(ctx, fmt.Sprintf("http://%s:%d/conf?unlike=%s", host, f.AgentPort, unlike))
		if err == nil {
			return m, nil
		}
		faults = append(faults, err)
	}
	return manifest{}, errors.Join(faults...)
}

// lively: slurmctld's pod may go without a word, and its address with it. Half a minute later
// its agent is looked for where the next one is.
var lively = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func getManifest(ctx context.Context, url string) (manifest, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: lively}).DialContext}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return manifest{}, err
	}
	response, err := client.Do(request)
	var dial *net.OpError
	switch {
	case err == nil:
	case errors.As(err, &dial) && dial.Op == "dial":
		return manifest{}, err
	case ctx.Err() != nil:
		return manifest{}, errNoNews
	default:
		return manifest{}, fmt.Errorf("%w: %w", errHungUp, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil || response.StatusCode != http.StatusOK {
		return manifest{}, errors.Join(err, errors.New(response.Status))
	}
	m, err := parseManifest(string(text))
	m.restart = parseRestart(response.Header.Get("Content-Type"))
	return m, err
}
