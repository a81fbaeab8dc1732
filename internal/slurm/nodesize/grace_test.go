package nodesize

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// annotated is a pod with these annotations.
func annotated(pairs map[string]string) Finder {
	return func(key string) (text, source string) {
		if text, has := pairs[key]; has {
			return text, "/etc/podinfo/annotations: " + key
		}
		return "", ""
	}
}

func grantedOf(t *testing.T, pairs map[string]string) Grace {
	t.Helper()
	g, err := FindGrace(annotated(pairs))
	require.NoError(t, err)
	return g
}

func TestGranted(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		pairs map[string]string
		want  time.Duration
		by    string
	}{
		"nothing":                     {nil, 0, ""},
		"a grace period":              {map[string]string{wellknown.GracePeriod: "10m"}, 10 * time.Minute, wellknown.GracePeriod},
		"none at all":                 {map[string]string{wellknown.GracePeriod: "0s"}, 0, wellknown.GracePeriod},
		"a deadline":                  {map[string]string{wellknown.Deadline: "2026-01-02T03:04:30Z"}, 30 * time.Second, wellknown.Deadline},
		"a deadline of another zone":  {map[string]string{wellknown.Deadline: "2026-01-02T05:04:30+02:00"}, 30 * time.Second, wellknown.Deadline},
		"the tightest: the deadline":  {map[string]string{wellknown.GracePeriod: "10m", wellknown.Deadline: "2026-01-02T03:04:30Z"}, 30 * time.Second, wellknown.Deadline},
		"the tightest: the period":    {map[string]string{wellknown.GracePeriod: "20s", wellknown.Deadline: "2026-01-02T03:04:30Z"}, 20 * time.Second, wellknown.GracePeriod},
		"a deadline that was no end":  {map[string]string{wellknown.Deadline: "2026-01-02T03:03:59Z"}, 0, ""},
		"such a one, and a period":    {map[string]string{wellknown.GracePeriod: "20s", wellknown.Deadline: "2026-01-02T03:03:59Z"}, 20 * time.Second, wellknown.GracePeriod},
		"blanks around it are no sin": {map[string]string{wellknown.GracePeriod: " 20s\n"}, 20 * time.Second, wellknown.GracePeriod},
	} {
		end := grantedOf(t, c.pairs).End(since)
		if c.by == "" {
			assert.False(t, end.Bounded(), name)
			continue
		}
		assert.Equal(t, "/etc/podinfo/annotations: "+c.by, end.Source, name)
		assert.True(t, since.Add(c.want).Equal(end.Value), "%s: %s", name, end.Value)
	}
	for key, texts := range map[string][]string{wellknown.GracePeriod: {"", "10", "-1s", "soon"}, wellknown.Deadline: {"", "30s", "2026-01-02", "1767323070", "2026-01-02T03:04:30"}} {
		for _, text := range texts {
			_, err := FindGrace(annotated(map[string]string{key: text}))
			require.ErrorContains(t, err, "/etc/podinfo/annotations: "+key+": cannot use", text)
		}
	}
	g, err := FindGrace(annotated(map[string]string{wellknown.GracePeriod: "x", wellknown.Deadline: "2026-01-02T03:04:30Z"}))
	require.Error(t, err)
	require.True(t, g.Deadline.Bounded(), "what is right beside a fault counts")
}
