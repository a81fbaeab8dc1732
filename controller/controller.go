package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/slurmlet/slurmlet/controller/internal/authority"
	"github.com/slurmlet/slurmlet/controller/internal/bridge"
	"github.com/slurmlet/slurmlet/controller/internal/cordon"
	"github.com/slurmlet/slurmlet/controller/internal/elastic"
	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/refresh"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/controller/internal/roll"
	"github.com/slurmlet/slurmlet/controller/internal/scalein"
	"github.com/slurmlet/slurmlet/controller/internal/tokens"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// controller is one replica.
type controller struct {
	Settings
	log *slog.Logger
	api kubernetes.Interface

	server    *peerserver.Server
	watcher   *pods.Watcher
	reviewer  *tokens.Reviewer
	authority *authority.Authority
	contact   *contact
	// reports are what slurmctlds' agents have told. marker, roller, keeper, maker, refresher and bridge are nil where settings
	// switch them off.
	reports   *reports.Reports
	marker    *scalein.Marker
	roller    *roll.Roller
	keeper    *cordon.Keeper
	maker     *elastic.Maker
	refresher *refresh.Refresher
	bridge    *bridge.Bridge
	began     time.Time

	// synced: the tables have what Kubernetes had at the start. ending: a signal has come.
	synced, ending atomic.Bool
	// leader is the number of the term in which this replica leads, 0 in none; terms counts them.
	leader, terms atomic.Int64
}

// Run is the controller until ctx ends.
func Run(ctx context.Context, s Settings, version string, log *slog.Logger) error {
	klog.SetSlogLogger(log)
	c := &controller{Settings: s, log: log, began: time.Now()}
	if err := c.open(version); err != nil {
		return err
	}
	health, err := c.serveHealth(version)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %v", s.HealthAddress, err)
	}
	defer health.Close()
	listener, err := net.Listen("tcp", s.PeersAddress)
	if err != nil {
		return fmt.Errorf("cannot listen for agents: %v", err)
	}
	webhook, err := c.listenToWebhook()
	if err != nil {
		return err
	}
	log.Info("the controller starts", "version", version, "name", s.PodName, "peers", listener.Addr().String(), "health", health.Addr().String())
	return c.live(ctx, listener, webhook)
}

// open makes the parts, which do nothing yet.
func (c *controller) open(version string) error {
	config, err := connection(c.Settings, version)
	if err != nil {
		return err
	}
	if c.api, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("cannot make a client of Kubernetes: %v", err)
	}
	// The reviewer and the maker limit themselves, and must not wait for what the others ask.
	unlimited := rest.CopyConfig(config)
	unlimited.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	limitless, err := kubernetes.NewForConfig(unlimited)
	if err != nil {
		return fmt.Errorf("cannot make a client of Kubernetes: %v", err)
	}
	c.reviewer = tokens.New(tokens.Options{
		API:  limitless.AuthenticationV1().TokenReviews(),
		Find: func(namespace, name, uid string) (tokens.Pod, bool) { return c.watcher.Find(namespace, name, uid) },
	})
	c.reports = reports.New()
	options := peerserver.ServerOptions{
		Authenticate: c.reviewer.Authenticate, Reported: c.reports.Take,
		NotTaken: func(id peerserver.Identity, why *peerserver.NotTaken) { c.watcher.NotTaken(id, why) },
		Answer:   c.answer, Leads: c.leads, Stale: c.stale, Returning: c.returning, Log: c.log,
	}
	if c.Bridge.On {
		options.Queue = c
	}
	c.server = peerserver.NewServer(options)
	rules, err := machines.Parse(c.Machines)
	if err != nil {
		return err
	}
	if c.watcher, err = pods.New(c.api, c.Namespaces, c.server, rules, c.log); err != nil {
		return err
	}
	c.reports.ForgetUnless(c.watcher.HasSlurmctld)
	c.contact = newContact(c.watcher.Silent)
	if err := c.openWriters(limitless); err != nil {
		return err
	}
	if err := c.openBridge(unlimited, limitless); err != nil {
		return err
	}
	c.authority, err = authority.New(authority.Options{
		API: c.api, Namespace: c.Namespace, In: c.Namespaces, Names: names(c.Service, c.Namespace, c.ClusterDomain), Lifetime: c.AuthorityLifetime, Log: c.log,
	})
	return err
}

// openWriters makes the parts that write what slurmctlds' agents have told.
func (c *controller) openWriters(limitless kubernetes.Interface) (err error) {
	if c.ScaleIn {
		if c.marker, err = scalein.New(c.api, c.watcher, c.reports, scalein.Settings{SafeToEvict: c.SafeToEvict}, c.log); err != nil {
			return err
		}
	}
	if c.Roll {
		if c.roller, err = roll.New(c.api, c.Namespaces, c.watcher, c.reports, c.PodName, c.log); err != nil {
			return err
		}
		c.roller.SetsChanged = c.server.SetsChanged
	}
	if c.Cordon.Mode != cordon.Off {
		if c.keeper, err = cordon.New(c.Cordon, c.api, c.watcher, c.reports, c.log); err != nil {
			return err
		}
	}
	if len(c.ConfigMaps) > 0 {
		c.refresher = refresh.New(c.api, c.ConfigMaps, c.watcher, c.reports, c.log)
	}
	if c.Elastic.On {
		c.maker, err = elastic.New(limitless, c.watcher, c.reports, c.Elastic, c.PodName, c.log)
	}
	return err
}

// openBridge makes the part by which pods wait in Slurm's queue.
func (c *controller) openBridge(config *rest.Config, api kubernetes.Interface) error {
	if !c.Bridge.On {
		return nil
	}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json" // of kinds that others define
	owners, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client of Kubernetes: %v", err)
	}
	c.bridge, err = bridge.New(api, owners, c.watcher, c.Bridge, c.PodName, c.log)
	return err
}

// answer is what slurmctld's agent hears after a report: to send all, if this replica has forgotten the rest, or
// what keeps the pods of elastic nodes from starting.
func (c *controller) answer(id peerserver.Identity) (*wire.Answer, bool) {
	switch {
	case !c.reports.Known(id.Cluster):
		return nil, false
	case c.maker == nil:
		return elastic.Off(c.reports, id.Cluster, c.began), true
	}
	return c.maker.Answer(id.Cluster), true
}

// returning is not known where nobody may watch StatefulSets.
func (c *controller) returning(cluster string) *wire.Returning {
	if c.roller == nil {
		return nil
	}
	return c.roller.Returning(cluster)
}

// names are those of a Service.
func names(service, namespace, domain string) []string {
	short := service + "." + namespace
	return []string{service, short, short + ".svc", short + ".svc." + domain}
}

// live runs all parts until ctx ends, and then ends them in order.
func (c *controller) live(ctx context.Context, listener, webhook net.Listener) error {
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	fault := make(chan error, 2)
	running.Go(func() {
		if err := c.server.Serve(listener, c.authority.TLS()); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			fault <- fmt.Errorf("cannot serve agents: %v", err)
		}
	})
	if webhook != nil {
		running.Go(func() {
			if err := c.serveWebhook(parts, webhook); err != nil {
				fault <- err
			}
		})
	}
	running.Go(func() { c.authority.Run(parts) })
	running.Go(func() {
		c.watcher.Run(parts, func() {
			c.server.Sync()
			c.synced.Store(true)
		})
	})
	if c.roller != nil {
		running.Go(func() { c.roller.Run(parts) })
	}
	if c.maker != nil {
		running.Go(func() { c.maker.Run(parts) })
	}
	if c.bridge != nil {
		running.Go(func() { c.bridge.Run(parts) })
	}
	running.Go(func() { c.watchContact(parts) })
	leading, resign := context.WithCancel(parts)
	var election sync.WaitGroup
	election.Go(func() { c.elect(leading) })

	var err error
	select {
	case <-ctx.Done():
		c.leave(resign, &election)
	case err = <-fault:
	}
	resign()
	c.server.Close()
	stop()
	election.Wait()
	running.Wait()
	return err
}

// leave hands over: the Lease first, so that another replica writes, then the agents. They come back to the
// Service over some time each by itself (peers.Client), and must not find this replica there.
func (c *controller) leave(resign func(), election *sync.WaitGroup) {
	c.ending.Store(true)
	c.log.Info("the controller ends", "streams", c.server.Stats().Streams)
	resign()
	election.Wait()
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	<-timer.C
}

// farewell is how long a replica that ends still serves: the Service leads to it until every machine has
// heard of its end.
const farewell = 2 * time.Second

// ready: an agent that comes gets its table.
func (c *controller) ready() bool {
	return c.synced.Load() && c.authority.Ready() && !c.ending.Load() && !c.stale()
}

// stale: Kubernetes has been silent for so long that the table may be an old one.
func (c *controller) stale() bool { return !c.contact.lost(time.Now()).IsZero() }

// lead is what the leader does until ctx ends.
func (c *controller) lead(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { c.authority.Lead(ctx) })
	work.Go(func() { c.authority.Publish(ctx, c.watcher.Namespaces, c.watcher.NewNamespaces()) })
	work.Go(func() { c.keepWebhook(ctx) })
	work.Go(func() { c.watcher.Tell(ctx, c.api, c.PodName) })
	if c.marker != nil {
		work.Go(func() { c.marker.Lead(ctx) })
	}
	if c.roller != nil {
		work.Go(func() { c.roller.Lead(ctx) })
	}
	if c.keeper != nil {
		work.Go(func() { c.keeper.Lead(ctx) })
	}
	if c.maker != nil {
		work.Go(func() { c.maker.Lead(ctx) })
	}
	if c.refresher != nil {
		work.Go(func() { c.refresher.Lead(ctx, c.PodName) })
	}
	if c.bridge != nil {
		work.Go(func() { c.bridge.Lead(ctx) })
	}
	work.Wait()
}

// Gateway, Started and JobPods are peerserver.Queue's, whose server is made before the bridge.
func (c *controller) Gateway(ctx context.Context, id peerserver.Identity, report wire.GatewayReport) (wire.GatewayOrders, error) {
	return c.bridge.Gateway(ctx, id, report)
}

func (c *controller) Started(id peerserver.Identity, started wire.Started) error {
	return c.bridge.Started(id, started)
}

func (c *controller) JobPods(ctx context.Context, id peerserver.Identity, job uint32, node string) ([]string, error) {
	return c.bridge.JobPods(ctx, id, job, node)
}

// questions is how many requests a replica sends to Kubernetes in a second at most, but for TokenReviews.
const questions = 50

// connection leads to Kubernetes. It uses Protocol Buffers.
func connection(s Settings, version string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if s.Kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	} else {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find Kubernetes: %v", err)
	}
	config.UserAgent = filepath.Base(os.Args[0]) + "/" + version
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	config.QPS, config.Burst = questions, 2*questions
	return config, nil
}
