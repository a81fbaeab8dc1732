package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Scale makes the nodes 0 to n-1, and deletes the others, the highest first as
// a StatefulSet does, all at once.
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
			all.run(func() error { return s.Create(ctx, spec) })
		}
	}
	for i := range have {
		if name := cluster.Node(i).Name; i >= n {
			progress("deleting pod %s (it has %v)", name, grace)
			all.run(func() error { return s.Delete(ctx, name, grace) })
		}
	}
	return all.wait()
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
