package nodesize

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// Grace is how much time somebody gives the pod to end, where that may be
// less than SLURMLET_GRACE_PERIOD: a machine that goes away, an autoscaler that
// waits for nobody longer than ten minutes.
type Grace struct {
	// GracePeriod is from SIGTERM on.
	GracePeriod cgroup.Bound[time.Duration] `json:"grace_period"`
	// Deadline is when SIGKILL comes, whenever SIGTERM does.
	Deadline cgroup.Bound[time.Time] `json:"deadline"`
}

// Finder looks up a label or an annotation of the pod. source says where it was found; empty for nowhere.
type Finder func(key string) (text, source string)

// FindGrace reads it from the pod's labels and annotations. The error holds every fault; what is right beside a fault
// counts.
func FindGrace(find Finder) (Grace, error) {
	var g Grace
	return g, errors.Join(
		findValue(&g.GracePeriod, find, wellknown.GracePeriod, ParseGracePeriod),
		findValue(&g.Deadline, find, wellknown.Deadline, ParseDeadline),
	)
}

func findValue[T any](bound *cgroup.Bound[T], find Finder, key string, parse func(string) (T, error)) error {
	text, source := find(key)
	if source == "" {
		return nil
	}
	value, err := parse(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("%s: cannot use %q: %w", source, text, err)
	}
	*bound = cgroup.Bound[T]{Value: value, Source: source}
	return nil
}

// ParseDeadline reads a time of RFC 3339.
func ParseDeadline(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, errors.New("want a time as in 2006-01-02T15:04:05Z")
	}
	return at, nil
}

// Or is g, and what it lacks is other's.
func (g Grace) Or(other Grace) Grace {
	if !g.GracePeriod.Bounded() {
		g.GracePeriod = other.GracePeriod
	}
	if !g.Deadline.Bounded() {
		g.Deadline = other.Deadline
	}
	return g
}

// Sooner is the earlier deadline of the two.
func (g Grace) Sooner(deadline cgroup.Bound[time.Time]) Grace {
	if deadline.Bounded() && (!g.Deadline.Bounded() || deadline.Value.Before(g.Deadline.Value)) {
		g.Deadline = deadline
	}
	return g
}

// Within is the shorter grace period of the two.
func (g Grace) Within(period cgroup.Bound[time.Duration]) Grace {
	if period.Bounded() && (!g.GracePeriod.Bounded() || period.Value < g.GracePeriod.Value) {
		g.GracePeriod = period
	}
	return g
}

// End is when SIGKILL comes to a pod that got SIGTERM at since; it is not bounded
// where no time is granted. A deadline that SIGTERM has outlived was wrong.
func (g Grace) End(since time.Time) cgroup.Bound[time.Time] {
	var end Grace
	if g.GracePeriod.Bounded() {
		end.Deadline = cgroup.Bound[time.Time]{Value: since.Add(g.GracePeriod.Value), Source: g.GracePeriod.Source}
	}
	if g.Outlived(since) {
		return end.Deadline
	}
	return end.Sooner(g.Deadline).Deadline
}

// Outlived says whether the deadline was over before SIGTERM came.
func (g Grace) Outlived(since time.Time) bool {
	return g.Deadline.Bounded() && g.Deadline.Value.Before(since)
}
