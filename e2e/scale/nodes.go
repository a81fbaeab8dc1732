package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/e2e/native"
)

const (
	// starters is how many nodes start at the same time.
	starters = 8
	// readyLimit is for one node among so many.
	readyLimit = time.Minute
)

// startNodes starts all nodes, some at a time, and waits until they are Ready.
func (t *trial) startNodes() error {
	began := time.Now()
	var (
		next   atomic.Int64
		fault  atomic.Pointer[error]
		ending sync.WaitGroup
	)
	for range starters {
		ending.Go(func() {
			for fault.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(t.Nodes) {
					return
				}
				if err := t.startNode(t.Nodes[i]); err != nil {
					fault.CompareAndSwap(nil, &err)
				}
				if part := max(len(t.Nodes)/5, 1); (i+1)%part == 0 {
					progress("Slurm %s: node %d of %d is Ready", t.result.version, i+1, len(t.Nodes))
				}
			}
		})
	}
	ending.Wait()
	if err := fault.Load(); err != nil {
		return *err
	}
	t.result.started = time.Since(began)
	var err error
	if t.result.memory, err = memory(); err != nil {
		return err
	}
	t.result.askedAtStart, err = t.counts()
	return err
}

func (t *trial) startNode(n *native.Node) error {
	// No agent stands beside this slurmctld.
	if err := t.Start(n, "SLURMLET_AGENT_PORT=0", "SLURMLET_GRACE_PERIOD="+grace.String()); err != nil {
		return err
	}
	select {
	case <-n.Ready:
		return nil
	case <-n.Exited:
		return fmt.Errorf("%s exited with %d at its start", n.Name, n.Status)
	case <-time.After(readyLimit):
		return fmt.Errorf("%s is not Ready within %v", n.Name, readyLimit)
	}
}
