package webpage

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
)

// TestOneKeepsAsking: streams that open and close leave one goroutine that asks, and none when
// nobody looks any more.
func TestOneKeepsAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := newSource(func(context.Context) (*pagefacts.Facts, error) {
			asked.Add(1)
			return sample(3, 10), nil
		})
		look := func() (end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			go s.watch(ctx, -1, func(int) error { return nil })
			synctest.Wait()
			return func() { cancel(); synctest.Wait() }
		}
		keeping := func() int {
			stacks := make([]byte, 1<<20)
			return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), fmt.Sprintf("keepAsking(%p", s))
		}
		for range 2 {
			asked.Store(0)
			for range 100 {
				look()()
			}
			end := look()
			require.Equal(t, 1, keeping())
			<-time.After(10 * pause)
			require.InDelta(t, 10, asked.Load(), 1)
			end()
			<-time.After(2 * pause)
			synctest.Wait()
			require.Zero(t, keeping())
		}
	})
}
