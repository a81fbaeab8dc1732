package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scale makes the nodes 0 to n-1, and deletes the others, all at once. It returns when those
// that it made take jobs, and nothing is left of those that it deleted.
func (s *Sandbox) Scale(ctx context.Context, n int, grace time.Duration, progress func(string, ...any)) error {
	cluster, err := s.Cluster()
	if err != nil {
		return err
	}
	have, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	var all group
	for i := range n {
		if spec := cluster.Node(i); !have[i] {
			progress("creating pod %s (%v CPUs, %d MiB)", spec.Name, spec.CPU, spec.Memory/mebibyte)
			all.run(func() error { return s.createIdle(ctx, spec, progress) })
		}
	}
	for i := range have {
		if name := cluster.Node(i).Name; i >= n {
			progress("deleting pod %s (it has %v)", name, grace)
			all.run(func() error {
				last, err := s.End(ctx, name, grace)
				if err == nil {
					progress("%s: ended with exit status %d", name, last.ExitCode)
				}
				return err
			})
		}
	}
	return all.wait()
}

// idleLimit is how long a node may take until it is idle. slurmctld may still start.
const idleLimit = 2 * time.Minute

// createIdle makes a node, and waits until it takes jobs.
func (s *Sandbox) createIdle(ctx context.Context, spec PodSpec, progress func(string, ...any)) error {
	if err := s.Create(ctx, spec); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, idleLimit, fmt.Errorf("it is not idle within %v", idleLimit))
	defer cancel()
	if err := s.waitReady(ctx, spec.Name, progress); err != nil {
		return err
	}
	for last := ""; ; {
		state, err := s.nodeState(ctx, spec.Name)
		switch {
		case err != nil:
			return err
		case state != last:
			progress("%s: sinfo says %s", spec.Name, state)
		}
		if slices.Contains(takesJobs, state) {
			return nil
		}
		last = state
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s is %s: %w", spec.Name, state, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// takesJobs are states of nodes, as sinfo has them: jobs may come before anybody looks.
var takesJobs = []string{"idle", "mixed", "allocated", "completing"}

// nodeState is a node's state as slurmctld has it, or that it does not say.
func (s *Sandbox) nodeState(ctx context.Context, node string) (string, error) {
	out, said, _, err := s.Exec(ctx, Slurmctld, "sinfo", "--noheader", "--nodes", node, "--format", "%T")
	if err != nil {
		return "", err
	}
	state, _, _ := strings.Cut(strings.TrimSpace(out), "\n") // a line for each partition
	return cmp.Or(state, strings.TrimSpace(said), "unknown to slurmctld"), nil
}

// group runs functions at once and gathers all their errors.
type group struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func (g *group) run(do func() error) {
	g.wg.Go(func() {
		err := do()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.errs = append(g.errs, err)
	})
}

func (g *group) wait() error {
	g.wg.Wait()
	return errors.Join(g.errs...)
}
