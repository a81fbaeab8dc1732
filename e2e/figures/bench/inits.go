package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// initResult is what one init costs.
type initResult struct {
	name string
	// start is to the daemon's first instructions, over is start less that of
	// the direct exec of the same round; relay is SIGTERM's way to the daemon.
	start, over, relay samples // milliseconds
	rss, own           float64 // 10^6 bytes; own is without the pages of files, which all processes of a machine share
	wakeups            int
}

// settled is how long a contender is left alone before it is signalled.
const settled = 30 * time.Millisecond

func measureInits(s settings) ([]*initResult, error) {
	dir := filepath.Join(native.Scratch, "inits")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a directory: %w", err)
	}
	all, err := contenders(dir, s)
	if err != nil {
		return nil, err
	}
	c, err := newContest(dir)
	if err != nil {
		return nil, err
	}
	results := make([]*initResult, len(all))
	for i, who := range all {
		results[i] = &initResult{name: who.name}
	}
	if err := measureStarts(c, all, results); err != nil {
		return nil, err
	}
	return results, measureIdle(c, all, results)
}

// measureStarts starts and stops the contenders, round by round. The first
// round warms the caches and does not count.
func measureStarts(c *contest, all []contender, results []*initResult) error {
	for round := range todo.inits + 1 {
		if round%5 == 0 {
			native.Progress("start and SIGTERM: round %d of %d", round, todo.inits)
		}
		var direct time.Duration
		for i, who := range all {
			if round%who.every != 0 {
				continue
			}
			start, relay, err := startOnce(c, who)
			if err != nil {
				return err
			}
			if i == 0 {
				direct = start
			}
			if round > 0 {
				results[i].start.add(start)
				results[i].over.add(start - direct)
				results[i].relay.add(relay)
			}
		}
	}
	return nil
}

func startOnce(c *contest, who contender) (start, relay time.Duration, err error) {
	r, err := c.start(who)
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(settled)
	relay, err = r.stop()
	return r.took, relay, err
}

// measureIdle watches all contenders at the same time.
func measureIdle(c *contest, all []contender, results []*initResult) error {
	native.Progress("idle: %v", todo.idleAfter+todo.idleFor)
	idle := make([]*running, len(all))
	before := make([]int, len(all))
	for i, who := range slices.Backward(all) { // supervisord takes its time; the others shall not have been idle for longer
		var err error
		if idle[i], err = c.start(who); err != nil {
			return err
		}
	}
	time.Sleep(todo.idleAfter)
	for i, r := range idle {
		var err error
		if before[i], err = contextSwitches(r.Process.Pid); err != nil {
			return err
		}
	}
	time.Sleep(todo.idleFor)
	for i, r := range idle {
		after, err := contextSwitches(r.Process.Pid)
		if err != nil {
			return err
		}
		results[i].wakeups = after - before[i]
		if results[i].rss, results[i].own, err = residentMB(r.Process.Pid); err != nil {
			return err
		}
	}
	for _, r := range idle {
		if _, err := r.stop(); err != nil {
			return err
		}
	}
	return nil
}
