package confsync

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Followers are the agents that have proved to have the cluster's key and wait for the next
// announcement, by the names of their nodes; one without a node is called "at" its address. The
// error says that the port did not answer before ctx ended.
func (f *Feed) Followers(ctx context.Context) ([]string, error) {
	names := make(chan []string, 1)
	f.port.Do(func() { names <- f.port.KnownNames() })
	select {
	case all := <-names:
		return all, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Recent are those of the Followers that follow, or have followed less than within ago.
func (f *Feed) Recent(ctx context.Context, within time.Duration) ([]string, error) {
	names := make(chan []string, 1)
	f.port.Do(func() { names <- f.port.RecentNames(within) })
	select {
	case all := <-names:
		return all, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Without are the nodes whose containers can hold no job by a controller, as their agents say that wait. The error
// says that the port did not answer before ctx ended.
func (f *Feed) Without(ctx context.Context, controller string) ([]string, error) {
	names := make(chan []string, 1)
	f.port.Do(func() {
		var all []string
		f.port.Answer(func(tag any, _ http.ResponseWriter) bool {
			if one, ours := tag.(waiter); ours && slices.Contains(strings.Split(one.without, ","), controller) {
				all = append(all, one.node)
			}
			return false
		})
		slices.Sort(all)
		names <- slices.Compact(all)
	})
	select {
	case all := <-names:
		return all, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// MostAway is how long an agent of so many is away at most before it asks anew.
func MostAway(agents int) time.Duration {
	return time.Second + max(time.Second, min(time.Duration(agents)*spreadEach, mostSpread)) + timeToAskAnew
}

// timeToAskAnew is for the way to slurmctld's agent, and for the proof.
const timeToAskAnew = time.Second

// Doubt has the connections of nodes' agents ended whose machines do not answer, within four seconds.
func (f *Feed) Doubt(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	f.port.Do(func() {
		for _, node := range nodes {
			f.port.Doubt(node)
		}
	})
}
