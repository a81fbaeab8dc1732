package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const (
	// readyLimit is for one node among so many.
	readyLimit = 2 * time.Minute
	// grace is the pods' grace period: longer than anything here takes. shortGrace is that of those
	// that go first.
	grace, shortGrace = 10 * time.Minute, 30 * time.Second
)

// first are those that go first, a quarter.
func (t *trial) first() []*native.Node { return t.Nodes[:len(t.Nodes)/4] }

// createRecords makes records that no node has registered for.
func (t *trial) createRecords() error {
	if t.settings.Records > 0 {
		if err := t.create(fmt.Sprintf("r[1-%d]", t.settings.Records), "CLOUD"); err != nil {
			return err
		}
	}
	if t.settings.Beforehand == "" {
		return nil
	}
	return t.create(fmt.Sprintf("n[1-%d]", len(t.Nodes)), t.settings.Beforehand)
}

// create has slurmctld make records of the size of native.Node. A node that no limit bounds
// registers all of its /tmp as TmpDisk.
func (t *trial) create(names, state string) error {
	began := time.Now()
	var disk unix.Statfs_t
	err := unix.Statfs(filepath.Join(t.Root, "tmp"), &disk)
	var out []byte
	if err == nil {
		size := fmt.Sprintf("TmpDisk=%d", disk.Blocks*uint64(disk.Bsize)>>20) //nolint:gosec // a size is not negative
		out, err = t.Command("/usr/bin/scontrol", "create", "nodename="+names, "CPUs=1", "RealMemory=300", size, "State="+state).CombinedOutput()
	}
	if err != nil {
		return fmt.Errorf("cannot create the records of %s: %w: %s", names, err, out)
	}
	t.progress("the records of %s are created, State=%s, in %v", names, state, tidy(time.Since(began)))
	return nil
}

// startNodes starts all nodes, some at a time, and waits until they are Ready.
func (t *trial) startNodes() error {
	var (
		next   atomic.Int64
		fault  atomic.Pointer[error]
		ending sync.WaitGroup
		lock   sync.Mutex
		took   durations
	)
	for range t.settings.Starters {
		ending.Go(func() {
			for fault.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(t.Nodes) {
					return
				}
				began := time.Now()
				if err := t.startNode(t.Nodes[i]); err != nil {
					fault.CompareAndSwap(nil, &err)
				}
				lock.Lock()
				took = append(took, time.Since(began))
				lock.Unlock()
				if part := max(len(t.Nodes)/5, 1); (i+1)%part == 0 {
					t.progress("node %d is Ready", i+1)
				}
			}
		})
	}
	ending.Wait()
	if err := fault.Load(); err != nil {
		return *err
	}
	used, err := memory()
	t.say("%d at a time; from a node's start until it is Ready: p50 %v, p99 %v, most %v; all processes have %d MiB",
		t.settings.Starters, took.at(.5), took.at(.99), took.at(1), used>>20)
	return err
}

func (t *trial) startNode(n *native.Node) error {
	period := grace
	if slices.Contains(t.first(), n) {
		period = shortGrace
	}
	if err := t.Start(n, "SLURMLET_GRACE_PERIOD="+period.String()); err != nil {
		return err
	}
	return n.AwaitReady(readyLimit)
}

// living are the nodes that have not ended.
func (t *trial) living() []*native.Node {
	return slices.DeleteFunc(slices.Clone(t.Nodes), (*native.Node).Ended)
}

// configuration is slurm.conf as a node's slurmd has it, and when it got that.
func configuration(n *native.Node) (text string, at time.Time) {
	path := filepath.Join("/proc", strconv.Itoa(n.PID()), "root/run/spool/conf-cache/slurm.conf")
	info, err := os.Stat(path)
	if err != nil {
		return "", at
	}
	data, _ := os.ReadFile(path) // it may be replaced at this moment
	return string(data), info.ModTime()
}
