//go:build e2e

package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// collected are the requests of one collection (internal/slurmctld/clusterview), and how often each is made
// there: scontrol and squeue ask for the partitions too when they are asked for nodes and jobs.
var collected = map[string]int{
	"REQUEST_STATS_INFO": 1, "REQUEST_PARTITION_INFO": 3, "REQUEST_RESERVATION_INFO": 1, "REQUEST_LICENSE_INFO": 1,
	"REQUEST_NODE_INFO": 2, "REQUEST_JOB_INFO": 1, "REQUEST_JOB_STATE": 1,
}

// crowd is how the port is scraped for a while.
type crowd struct {
	scrapers int
	pause    time.Duration // between two scrapes of one
}

// scraped is how long each crowd scrapes.
const scraped = 8 * time.Second

// scrapers compares what slurmctld is asked for without a scraper, for one, for twenty, and for so
// many scrapes as the agent answers.
func (w *world) scrapers() error {
	<-time.After(2 * interval) // what was begun for others ends
	for _, c := range []crowd{{}, {1, interval}, {20, interval}, {32, 0}} {
		if err := w.scrapedBy(c); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) scrapedBy(c crowd) error {
	pids, err := processes("slurmctld")
	if err != nil || len(pids) != 1 {
		return fmt.Errorf("there are %d slurmctlds: %w", len(pids), err)
	}
	used, err := cpuOf(pids[0])
	before, rpcErr := w.RPCs()
	if err := errors.Join(err, rpcErr); err != nil {
		return err
	}
	slowest, answered, err := w.scrape(c)
	after, rpcErr := w.RPCs()
	now, cpuErr := cpuOf(pids[0])
	if err := errors.Join(err, rpcErr, cpuErr); err != nil {
		return err
	}
	after["REQUEST_STATS_INFO"]-- // the test's own
	asked, most := 0, int(scraped/interval)+2
	if c.scrapers == 0 {
		most = 0
	}
	for name, each := range collected {
		n := after[name] - before[name]
		asked += n
		if n > most*each {
			return fmt.Errorf("%d scrapers: slurmctld had %d times %s in %v, not at most %d", c.scrapers, n, name, scraped, most*each)
		}
	}
	fmt.Printf("%2d scrapers, %6.1f scrapes a second: %4d requests a minute at slurmctld, with an interval of %v; slurmctld used %v of CPU in %v, and scontrol ping took %v at most\n",
		c.scrapers, float64(answered)/scraped.Seconds(), int(float64(asked)*float64(time.Minute)/float64(scraped)), interval, now-used, scraped, slowest.Round(time.Millisecond))
	if c.scrapers > 0 && answered == 0 {
		return errors.New("nobody was answered")
	}
	return nil
}

// scrape has a crowd scrape the agent's port, while somebody asks slurmctld whether it is there.
func (w *world) scrape(c crowd) (slowest time.Duration, answered int, err error) {
	var all sync.WaitGroup
	var count atomic.Int64
	faults := make(chan error, c.scrapers+1)
	end := time.Now().Add(scraped)
	for range c.scrapers {
		all.Go(func() {
			client := &http.Client{Timeout: limit, Transport: &http.Transport{DisableCompression: true}} // a connection of its own
			defer client.CloseIdleConnections()
			for time.Now().Before(end) {
				if err := scrapeOnce(client); err != nil {
					faults <- err
					return
				}
				count.Add(1)
				<-time.After(min(c.pause, time.Until(end)))
			}
		})
	}
	for time.Now().Before(end) {
		began := time.Now()
		if out, err := w.slurm("scontrol", "ping"); err != nil {
			faults <- fmt.Errorf("%w: %s", err, out)
			break
		}
		slowest = max(slowest, time.Since(began))
		<-time.After(100 * time.Millisecond)
	}
	all.Wait()
	close(faults)
	var told []error
	for fault := range faults {
		told = append(told, fault)
	}
	return slowest, int(count.Load()), errors.Join(slices.Compact(told)...)
}

// scrapeOnce asks as Prometheus does, and leaves the answer packed.
func scrapeOnce(client *http.Client) error {
	ask, err := http.NewRequest(http.MethodGet, "http://"+net.JoinHostPort(native.Address, "8817")+"/metrics", http.NoBody) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	ask.Header.Set("Accept-Encoding", "gzip")
	answer, err := client.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
