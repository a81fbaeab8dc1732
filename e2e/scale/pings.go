package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/e2e/native"
)

// pinger runs "scontrol ping", one after the other.
type pinger struct {
	cluster *native.Cluster
	pings   pings
}

// pings are how long scontrol ping took, from its start to its end, and bare how
// long scontrol takes that asks nobody: what the machine is the reason of.
type pings struct {
	took, bare durations
	failed     int
}

// between pings slurmctld is left alone.
const between = 20 * time.Millisecond

func (p *pinger) ping() {
	<-time.After(between)
	_ = p.run(&p.pings.bare, "show", "hostnames", "n1")
	if out := p.run(&p.pings.took, "ping"); !bytes.Contains(out, []byte("is UP")) {
		p.pings.failed++
	}
}

// run returns what scontrol says, nothing if it fails.
func (p *pinger) run(took *durations, args ...string) []byte {
	began := time.Now()
	out, err := p.cluster.Command("/usr/bin/scontrol", args...).Output()
	*took = append(*took, time.Since(began))
	if err != nil {
		return nil
	}
	return out
}

// start pings until it is stopped.
func (p *pinger) start() (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stopping:
				return
			default:
				p.ping()
			}
		}
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}

func (p pings) answered() error {
	if p.failed > 0 {
		return fmt.Errorf("%d of %d pings were not answered", p.failed, len(p.took))
	}
	return nil
}
