package reconfig

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDelivery tells stories of one ConfigMap. A version is a letter, its content, and a number. "dir A" is
// the kubelet's delivery, "told B2" the controller's stream, "told C3<A1,B2" one that also tells versions
// before it, "away" and "wait 4m" are what they say, "reload" is an administrator's. After "=" is the content
// that counts, "dir" for the directory's.
func TestDelivery(t *testing.T) {
	for name, story := range map[string]string{
		"no controller":                                   "dir A = dir; dir B = dir",
		"a streamed edit, and its delivery":               "dir A = dir; told A1 = dir; told B2 = B; wait 1m = B; dir B = dir; wait 10m = dir",
		"a mount of something else":                       "dir X = dir; told A1 = dir; told B2 = dir; told C3 = dir",
		"the controller knows more than the directory":    "dir A = dir; told B2 = dir; dir B = dir; told C3 = C",
		"a restarted agent, and a controller that stays":  "dir A = dir; told C3<A1,B2 = C; dir B = C; dir C = dir",
		"a restarted agent, and an older mount, unknown":  "dir A = dir; told C3<B2 = dir; dir B = C; dir C = dir",
		"the kubelet delivers the version between":        "dir A = dir; told A1 = dir; told B2 = B; told C3 = C; dir B = C; dir C = dir",
		"... which was never streamed":                    "dir A = dir; told A1 = dir; told C3<A1,B2 = C; dir B = C; dir C = dir",
		"... and which no controller knows":               "dir A = dir; told A1 = dir; told C3 = C; dir B = C; dir C = dir",
		"... and the controller goes":                     "dir A = dir; told A1 = dir; told C3 = C; dir D = C; away = dir",
		"... and nothing more comes":                      "dir A = dir; told A1 = dir; told C3 = C; dir D = C; wait 4m = C; wait 2m = dir",
		"the controller goes before the delivery":         "dir A = dir; told A1 = dir; told B2 = B; away = B; dir B = dir",
		"a replica that lags":                             "dir A = dir; told A1 = dir; told B2 = B; told A1 = B; dir B = dir; told A1 = dir",
		"an API server that lags behind the kubelet":      "dir A = dir; told A1 = dir; dir C = dir; told B2 = dir; told C3 = dir; told D4 = D",
		"the same version again":                          "dir A = dir; told A1 = dir; told B2 = B; told B2 = B; told B3 = B; dir B = dir; told B3 = dir",
		"an edit that is taken back":                      "dir A = dir; told A1 = dir; told B2 = B; told A3 = A; dir B = A; dir A = dir",
		"... of which the kubelet saw nothing":            "dir A = dir; told A1 = dir; told B2 = B; told A3 = A; wait 6m = dir; dir B = dir",
		"... after the kubelet delivered it":              "dir A = dir; told A1 = dir; told B2 = B; dir B = dir; told A3 = A; dir A = dir",
		"... and the kubelet is first":                    "dir A = dir; told A1 = dir; told B2 = B; dir B = dir; dir A = B; told A3 = A",
		"... a while later":                               "dir A = dir; told A1 = dir; told B2 = B; dir B = dir; wait 6m = dir; dir A = dir",
		"... and the controller is away":                  "dir A = dir; told A1 = dir; told B2 = B; dir B = dir; away = dir; dir A = dir",
		"a kubelet that goes back":                        "dir A = dir; told A1 = dir; told B2 = B; dir B = dir; dir A = B; dir B = dir",
		"a kubelet that is ahead, twice":                  "dir A = dir; told A1 = dir; dir B = dir; told B2 = dir; dir C = dir; told C3 = dir; told D4 = D; dir D = dir",
		"a kubelet that does not deliver":                 "dir A = dir; told A1 = dir; told B2 = B; wait 6m = B; told C3 = B; dir B = C; dir C = dir; told D4 = D",
		"... until it delivers the newest":                "dir A = dir; told A1 = dir; told B2 = B; wait 6m = B; told C3 = B; dir C = dir; told D4 = D",
		"... until it delivers what nobody has told":      "dir A = dir; told A1 = dir; told B2 = B; wait 6m = B; dir X = dir; told C3 = dir; told X4 = dir; told Y5 = Y",
		"... and somebody reloads":                        "dir A = dir; told A1 = dir; told B2 = B; wait 6m = B; reload = dir; told C3 = dir; dir C = dir; told D4 = D",
		"a reload in time":                                "dir A = dir; told A1 = dir; told B2 = B; reload = B",
		"a directory that cannot be read":                 "dir A = dir; told A1 = dir; told B2 = B; dir - = B; dir B = dir; dir - = dir; told C3 = dir; dir C = dir",
		"a restored etcd":                                 "dir A = dir; told A91 = dir; told B92 = B; dir B = dir; wait 6m = dir; told C12 = dir; dir C = dir; told D13 = dir; dir D = dir",
		"an older delivery after a restart of everything": "dir A = dir; told B2 = dir; dir B = dir",
	} {
		t.Run(name, func(t *testing.T) {
			var d delivery
			now := time.Now()
			for step := range strings.SplitSeq(story, "; ") {
				do, want, _ := strings.Cut(step, " = ")
				play(t, &d, do, &now)
				have := "dir"
				if d.over != nil {
					have = d.over.digest
				}
				require.Equal(t, want, have, step)
			}
		})
	}
}

// play does one step of a story.
func play(t *testing.T, d *delivery, step string, now *time.Time) {
	t.Helper()
	verb, what, _ := strings.Cut(step, " ")
	switch verb {
	case "dir":
		d.delivered(strings.Trim(what, "-"), *now)
	case "told":
		text, before, _ := strings.Cut(what, "<")
		digest, number := versionOf(t, text)
		former := map[string]uint64{}
		if before != "" {
			for one := range strings.SplitSeq(before, ",") {
				digest, number := versionOf(t, one)
				former[digest] = number
			}
		}
		d.told(streamedVersion{number: number, digest: digest, at: *now}, former)
	case "wait":
		wait, err := time.ParseDuration(what)
		require.NoError(t, err)
		*now = now.Add(wait)
		d.decide(*now)
	case "away":
		d.away = true
		d.decide(*now)
	case "reload":
		d.forgo()
	default:
		t.Fatalf("no such step: %s", step)
	}
}

func versionOf(t *testing.T, text string) (digest string, number uint64) {
	t.Helper()
	_, err := fmt.Sscanf(text[1:], "%d", &number)
	require.NoError(t, err)
	return text[:1], number
}

// TestDeliveryOrder plays random edits, with a kubelet and a controller that are late, each by itself, and
// never go back. What counts never goes back either, and the last edit counts in the end.
func TestDeliveryOrder(t *testing.T) {
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 1))
		var d delivery
		now := time.Now()
		kubelet, controller, last, counted := 1, 1, 1, 1
		content := func(n int) string { return fmt.Sprint("v", n) }
		tell := func() {
			former := map[string]uint64{}
			for n := max(1, controller-chance.IntN(4)); n < controller; n++ {
				former[content(n)] = uint64(n)
			}
			d.told(streamedVersion{number: uint64(controller), digest: content(controller), at: now}, former)
		}
		d.delivered(content(1), now)
		tell()
		for step := range 60 {
			now = now.Add(time.Duration(chance.IntN(20)) * time.Second)
			switch {
			case step > 50: // all comes in the end
				kubelet, controller = last, last
				d.delivered(content(kubelet), now)
				tell()
			case chance.IntN(3) == 0:
				last++
			case chance.IntN(2) == 0:
				controller += chance.IntN(last - controller + 1)
				tell()
			case controller > 1 && chance.IntN(8) == 0: // a replica that lags
				d.told(streamedVersion{number: uint64(controller - 1), digest: content(controller - 1), at: now}, nil)
			default:
				kubelet += chance.IntN(last - kubelet + 1)
				d.delivered(content(kubelet), now)
			}
			var have int
			_, err := fmt.Sscanf(d.digest(), "v%d", &have)
			require.NoError(t, err)
			require.GreaterOrEqual(t, have, counted, "seed %d, step %d", seed, step)
			counted = have
		}
		require.Equal(t, last, counted, "seed %d", seed)
	}
}
