package agent

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
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/watch"
)

// follower compares what slurmd or sackd has of the cluster's configuration with
// what slurmctld's agent announces. slurmctld pushes a configuration once: a daemon
// that misses it, or gets one that is taken back, keeps what it has until it is
// restarted.
type follower struct {
	*watch.Watcher
	agent *Agent
	cache string
	// unwatched: the kernel cannot report changes of the copy.
	unwatched bool
	announced manifest
	// restarts counts those for the present announcement.
	restarts int
	// urged is the hash of the set that slurmctld's agent had the daemon restarted for last, at
	// urgedAt.
	urged   string
	urgedAt time.Time
}

const (
	// pushTime is what a push may need on its way through the tree; as much is added
	// by chance, for thousands that fetch at once.
	pushTime = 5 * time.Second
	// maxRestarts is how often one announcement makes the daemon start anew.
	maxRestarts = 3
)

// newFollower of the copy that the daemon keeps at cache.
func newFollower(a *Agent, cache string, o watch.Options) *follower {
	f := &follower{agent: a, cache: cache}
	o.Done, o.Calm = a.over, f.patience
	o.Changed = func() {
		if f.look() {
			f.Look()
		}
	}
	f.Watcher = watch.New(o)
	return f
}

// followConf follows until the agent's end.
func (a *Agent) followConf() {
	if a.Config.AgentPort == 0 {
		return
	}
	f := newFollower(a, filepath.Join(a.Root, a.daemon.copy(a.Config)), watch.Options{})
	go a.pollConf(func(m manifest) bool { return f.Do(func() { f.take(m) }) })
	f.Run()
}

// take hears of an announcement. The daemon makes its copy, so it may not be there before.
func (f *follower) take(m manifest) {
	f.hear(m)
	if err := f.Add(f.cache); err != nil && !errors.Is(err, fs.ErrNotExist) && !f.unwatched {
		f.unwatched = true
		f.agent.tell(slog.LevelWarn, "the kernel cannot tell of changes of the copy of the configuration: it is looked at every "+watch.Every.String(), slog.Any("error", err))
		f.Tick(watch.Every)
	}
	f.Look()
}

func (f *follower) hear(m manifest) {
	if m.urged != nil {
		f.restartFor(m)
		return
	}
	if m.hash != f.urged {
		f.urged = ""
	}
	if m.hash != f.announced.hash {
		f.restarts = 0
	}
	f.announced = m
}

// patience grows from restart to restart.
func (f *follower) patience() time.Duration {
	wait := pushTime << (2 * f.restarts)
	return wait + rand.N(wait)
}

// look has the daemon restarted if it has not what it should have, and says whether
// it is to be looked at again. While slurmctld tries a configuration, its agent
// does not answer: only what it says then counts, and only if nothing comes after it.
func (f *follower) look() bool {
	if !f.differs() {
		return false
	}
	if _, err := f.ask(); err != nil {
		return true
	}
	select {
	case <-f.agent.over:
		return false
	case <-time.After(f.patience()):
	}
	if news, err := f.ask(); news || err != nil {
		return true
	}
	return f.differs() && f.restart()
}

// ask says whether another configuration has been announced.
func (f *follower) ask() (news bool, err error) {
	m, err := f.agent.askConf("")
	if err != nil {
		return false, err
	}
	news = m.hash != f.announced.hash || m.urged != nil
	f.hear(m)
	return news, nil
}

func (f *follower) differs() bool {
	differs := f.announced.hash != "" && f.announced.differs(confset.Contents(f.cache, nil))
	if !differs {
		f.agent.missedConf.Store(nil)
	}
	return differs
}

func (f *follower) restart() bool {
	switch {
	case f.agent.Status().State != Ready:
		return true
	case f.restarts == maxRestarts:
		fault := fmt.Sprintf("%s does not get slurmctld's configuration, in %d starts", f.agent.daemon.program, f.restarts)
		f.agent.missedConf.Store(&fault)
		f.agent.tell(slog.LevelError, fault, slog.String("hash", f.announced.hash))
		return false
	}
	f.restarts++
	f.agent.post(outdated{})
	return true
}

// pollConf asks slurmctld's agent for news, until take returns false. One that is not there, or older, is
// asked again after a while.
func (a *Agent) pollConf(take func(manifest) bool) {
	last, met := "", false
	for failures := 0; ; {
		m, err := a.askConf(last)
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
			a.post(controllerLost{})
		case met && failures < mostLost: // it may have been back between two questions
			a.post(controllerLost{})
		}
		pause := grow(time.Second, failures, time.Minute)
		failures++
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-a.over:
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

// askConf returns when the announced configuration is unlike the one named.
func (a *Agent) askConf(unlike string) (manifest, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askAgain)
	defer cancel()
	var faults []error
	for address := range strings.SplitSeq(a.Config.Controller, ",") {
		host, _, _ := net.SplitHostPort(address)
		m, err := getConf(ctx, fmt.Sprintf("http://%s:%d/conf?unlike=%s", host, a.Config.AgentPort, unlike))
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

func getConf(ctx context.Context, url string) (manifest, error) {
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
	m.urged = urgedBy(response.Header.Get("Content-Type"))
	return m, err
}
