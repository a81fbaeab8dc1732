package confsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// FollowerOptions are a Follower's surroundings.
type FollowerOptions struct {
	// Slurmctld is host:port of slurmctld, several separated by commas; AgentPort is that of
	// the agents beside them.
	Slurmctld string
	AgentPort int
	// Prover proves that this agent has the cluster's key; nil: it cannot. Node is the name of
	// its node, empty for none.
	Prover *proof.Client
	Node   string
	// Without are the controllers by which the container can hold no job.
	Without []string
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
	// nodes is how many agents follow, as far as slurmctld's agent has said.
	nodes atomic.Int64
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
		f.Log(slog.LevelWarn,
			"the kernel cannot report changes of the copy of the configuration: it is looked at every "+
				watch.Every.String(), slog.Any("error", err))
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
	m, err := f.get("", "")
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
	last, start, met := "", "", false
	for failures := 0; ; {
		m, err := f.get(last, start)
		switch {
		case err == nil:
			switch {
			case start != "" && m.start != "" && m.start != start:
				f.Log(slog.LevelInfo, "slurmctld has been started anew")
				f.Lost()
			case !met && failures > 0: // the node may have registered with an earlier slurmctld
				f.Lost()
			}
			f.Log(slog.LevelDebug, "slurmctld's agent has announced a configuration", slog.String("hash", m.hash))
			failures, last, start, met = 0, m.hash, cmp.Or(m.start, start), true
			f.nodes.Store(int64(m.nodes))
			if !take(m) || !f.pause(rand.N(f.Spread()+1)) {
				return
			}
			continue
		case errors.Is(err, errNoNews):
			failures = 0
		case errors.Is(err, errHungUp):
			f.Log(slog.LevelInfo, "slurmctld's agent has hung up", slog.Any("error", err))
			failures = 0
			f.Lost()
		case met && failures < mostLost: // it may have been back between two questions
			f.Lost()
		}
		pause := backoff.Grow(time.Second, failures, time.Minute)
		failures++
		if !f.pause(pause + rand.N(max(pause, f.Spread()))) {
			return
		}
	}
}

func (f *Follower) pause(wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-f.Done:
		return false
	}
}

const (
	// spreadEach is the time that is added for each agent, all of which ask at once when
	// slurmctld's is new: it gets a thousand a second.
	spreadEach = time.Millisecond
	mostSpread = time.Minute
)

// Spread is over what time the questions lie that all agents ask at once. A nil Follower knows of
// no others.
func (f *Follower) Spread() time.Duration {
	if f == nil {
		return 0
	}
	return min(time.Duration(f.nodes.Load())*spreadEach, mostSpread)
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

// get returns when the announced configuration is unlike the one named, or announced by another
// slurmctld.
func (f *Follower) get(hash, start string) (manifest, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askAgain)
	defer cancel()
	query := url.Values{hashParameter: {hash}}
	if start != "" {
		query.Set(startParameter, start)
	}
	if f.Node != "" {
		query.Set(nodeParameter, f.Node)
	}
	if len(f.Without) > 0 {
		query.Set(withoutParameter, strings.Join(f.Without, ","))
	}
	var faults []error
	for address := range strings.SplitSeq(f.Slurmctld, ",") {
		host, _, _ := net.SplitHostPort(address)
		m, err := getManifest(ctx, f.Prover, net.JoinHostPort(host, strconv.Itoa(f.AgentPort)), "/conf?"+query.Encode())
		if err == nil {
			return m, nil
		}
		faults = append(faults, err)
	}
	return manifest{}, errors.Join(faults...)
}

func getManifest(ctx context.Context, prover *proof.Client, address, path string) (manifest, error) {
	answer, err := fetch(ctx, prover, address, path)
	var dial *net.OpError
	var status *proof.Status
	switch {
	case err == nil:
	case errors.As(err, &dial) && dial.Op == "dial", errors.As(err, &status), errors.Is(err, proof.ErrNotProved):
		return manifest{}, err
	case ctx.Err() != nil:
		return manifest{}, errNoNews
	default:
		return manifest{}, fmt.Errorf("%w: %w", errHungUp, err)
	}
	m, err := parseManifest(answer.Text)
	m.restart = parseRestart(answer.Kind)
	m.start = parameter(answer.Kind, startParameter)
	m.nodes = max(0, int(numberParameter(answer.Kind, nodesParameter)))
	return m, err
}

// fetch proves itself where it can. Where slurmctld's agent asks for no proof, or believes none, this
// one gets what strangers get.
func fetch(ctx context.Context, prover *proof.Client, address, path string) (proof.Answer, error) {
	if prover != nil {
		answer, err := prover.Get(ctx, address, path)
		if !errors.Is(err, proof.ErrNoKey) && !errors.Is(err, proof.ErrNotOffered) && !errors.Is(err, proof.ErrRefused) {
			return answer, err
		}
	}
	return proof.GetUnsigned(ctx, address, path)
}
