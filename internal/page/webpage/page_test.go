package webpage

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

var update = flag.Bool("update", false, "write the golden files anew")

func render(t testing.TB, f *pagefacts.Facts, named bool, filter Filter) string {
	t.Helper()
	p, err := newCluster(f).newPage(named, filter).render()
	require.NoError(t, err)
	return string(p.plain)
}

// TestPage compares whole pages with testdata.
func TestPage(t *testing.T) {
	old := sample(3, 12)
	old.View.Readings[clusterview.FamilyJobs] = clusterview.Reading{At: sampleTime.Add(-time.Hour), Err: errors.New("slurmctld does not answer")}
	empty := &pagefacts.Facts{At: sampleTime, View: &clusterview.View{}}
	for _, c := range []struct {
		name   string
		facts  *pagefacts.Facts
		named  bool
		filter Filter
	}{
		{"stranger", sample(12, 40), false, Filter{}},
		{"named", sample(12, 40), true, Filter{Page: 1}},
		{"filtered", sample(3, 40), true, Filter{State: "RUNNING", User: "alice", Page: 1}},
		{"middle", sample(60, 10), true, Filter{}},
		{"old", old, true, Filter{}},
		{"empty", empty, true, Filter{}},
		{"empty-stranger", empty, false, Filter{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := render(t, c.facts, c.named, c.filter)
			file := filepath.Join("testdata", c.name+".html")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// TestStrangersAreToldNoName: a stranger's page has no word that a person, a user or a daemon has
// written, but the names of partitions.
func TestStrangersAreToldNoName(t *testing.T) {
	const mark = "Secret"
	f := sample(5, 5)
	v := f.View
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Name, n.Reason, n.ReasonUser, n.Extra, n.Comment, n.Features = mark, mark, mark, mark, mark, []string{mark}
		n.State = []string{"DOWN", "DRAIN"}
	}
	v.Jobs = clusterview.JobsOf(slurm.Job{
		ID: 1, Tasks: 1, Name: mark, Pods: mark, User: mark, Account: mark, QOS: mark, State: []string{"PENDING"}, Reason: mark + " of a plugin", NodeList: mark, Features: mark, Reservation: mark,
		Partitions: []string{"cpu"},
	})
	v.Reservations = []clusterview.Reservation{{Name: mark, NodeList: mark}}
	v.Licenses = []clusterview.License{{Name: mark}}
	f.Agent.Doing, f.Agent.Reason, f.Agent.Version = mark, mark, mark
	f.Followers = []string{mark}
	f.Conf = &reconfig.Status{
		Sources: []string{mark}, Live: mark, Doing: mark, Missed: []string{mark}, Faults: []string{mark}, Refused: &reconfig.Refusal{Why: []string{mark}},
		History: []reconfig.Edit{{Hash: mark, Files: []string{mark}, Why: []string{mark}}},
	}
	require.Contains(t, render(t, f, true, Filter{}), mark)
	page := render(t, f, false, Filter{User: mark, Partition: mark, State: mark})
	require.NotContains(t, page, mark)
	require.Contains(t, page, "Other reasons")
}

// TestUnknownFollowers: a node is not said to have no agent where nobody could tell.
func TestUnknownFollowers(t *testing.T) {
	f := sample(3, 3)
	f.Followers, f.FollowersUnknown = nil, true
	page := render(t, f, true, Filter{})
	require.Contains(t, page, "did not tell which agents follow it")
	require.NotContains(t, page, "Not heard of")
}

// TestLargePages: what a page has is bounded, whatever the cluster has.
func TestLargePages(t *testing.T) {
	page := render(t, sample(10_000, 5_000), true, Filter{})
	require.Less(t, len(page), 1_500_000)
	require.Equal(t, 10_000, strings.Count(page, "<i class=\"")-strings.Count(page, "<i class=\"sq"))
	require.Contains(t, page, "1 to 25 of 5")

	worst := sample(mostSquares+100, 1)
	for i := range worst.View.Nodes {
		n := &worst.View.Nodes[i]
		n.State, n.Name, n.Reason = []string{"DOWN"}, strings.Repeat("n", 63), strings.Repeat("&", 1000)
	}
	require.Less(t, len(render(t, worst, true, Filter{})), 7_000_000)
}

var tag = regexp.MustCompile(`<[a-zA-Z/!][^>]*>`)

// skeleton is the page's elements and attributes, without their values.
func skeleton(page string) string {
	value := regexp.MustCompile(`="[^"]*"`)
	var all []string
	for _, one := range tag.FindAllString(page, -1) {
		all = append(all, value.ReplaceAllString(one, ""))
	}
	return strings.Join(all, "\n")
}

// hostile puts a text wherever somebody can write one.
func hostile(text string) *pagefacts.Facts {
	f := sample(2, 0)
	v := f.View
	v.Cluster, v.Version = "c"+text, "v"+text
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Name, n.Reason, n.ReasonUser, n.State = "n"+text, "r"+text, "u"+text, []string{"DOWN", "f" + text}
		n.Partitions = []string{"p" + text}
	}
	v.Partitions = []clusterview.Partition{{Name: "p" + text, State: "s" + text, Nodes: 2, Default: true}}
	v.Jobs = clusterview.JobsOf(
		slurm.Job{ID: 1, Tasks: 1, Name: "j" + text, Pods: "k" + text, User: "u" + text, Account: "a" + text, State: []string{"PENDING", "f" + text}, Reason: "r" + text, Partitions: []string{"p" + text}},
		slurm.Job{ID: 2, Tasks: 1, Name: "j" + text, User: "u" + text, State: []string{"RUNNING"}, NodeList: "l" + text, Start: ago(time.Hour), Partitions: []string{"p" + text}},
	)
	v.Reservations = []clusterview.Reservation{{Name: "n" + text, NodeList: "l" + text, Flags: []string{"f" + text}}}
	v.Licenses = []clusterview.License{{Name: "n" + text}}
	f.Agent = pagefacts.Agent{Version: "v" + text, State: "s" + text, Doing: "d" + text, Reason: "r" + text}
	f.Conf = &reconfig.Status{
		Sources: []string{"s" + text}, Live: "h" + text, Doing: "d" + text, Missed: []string{"m" + text}, Faults: []string{"f" + text}, Refused: &reconfig.Refusal{Why: []string{"w" + text}},
		History: []reconfig.Edit{{At: sampleTime, Outcome: reconfig.OutcomeRefused, Hash: "h" + text, Files: []string{"f" + text}, Why: []string{"w" + text}}},
	}
	f.Followers = []string{"x" + text}
	return f
}

// FuzzEscape: no text of anybody's changes the page's elements, or the order of its characters.
func FuzzEscape(f *testing.F) {
	for _, text := range []string{
		"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "'", "`", "&lt;", "</title>", "--><!--", "{{.}}", "javascript:alert(1)", "\u202eevil", "\u2066x", "\x00\x1b[31m\r\n", "\xff\xfe",
		"\u200b\u2028\ufeff", strings.Repeat("x", 10<<10), strings.Repeat("<b>", 4000), "=1+1", "%2e", "</bdi></td>", "onmouseover=alert(1) x=",
	} {
		f.Add(text)
	}
	plainest := skeleton(render(f, hostile("x"), true, Filter{User: "ux", Partition: "px", State: "SX", Page: 1}))
	f.Fuzz(func(t *testing.T, text string) {
		page := render(t, hostile(text), true, Filter{User: shown("u" + text), Partition: shown("p" + text), State: "SX", Page: 1})
		want, got := strings.Split(plainest, "\n"), strings.Split(skeleton(page), "\n")
		for i, one := range got {
			require.True(t, i < len(want) && one == want[i], "element %d is %s", i, one)
		}
		require.Len(t, got, len(want))
		require.Less(t, len(page), 200_000)
		for _, r := range page {
			require.False(t, r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)), "%q is in the page", r)
		}
		stranger := render(t, hostile(text), false, Filter{})
		require.Less(t, len(stranger), 100_000)
	})
}

// TestAccessible holds what a screen reader needs.
func TestAccessible(t *testing.T) {
	for _, named := range []bool{false, true} {
		page := render(t, sample(12, 40), named, Filter{})
		require.Contains(t, page, `<html lang="en"`)
		for _, landmark := range []string{"<header>", "<nav aria-label=", "<main>", "<footer>"} {
			require.Equal(t, 1, strings.Count(page, landmark), landmark)
		}
		require.Equal(t, 1, strings.Count(page, "<h1>"))
		for _, header := range regexp.MustCompile(`<th[ >][^>]*>?`).FindAllString(page, -1) {
			require.Contains(t, header, "scope=")
		}
		for _, region := range regexp.MustCompile(`<section[^>]*>`).FindAllString(page, -1) {
			require.Contains(t, region, "aria-label")
		}
		ids := regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1)
		seen := map[string]bool{}
		for _, id := range ids {
			require.False(t, seen[id[1]], "two elements are %s", id[1])
			seen[id[1]] = true
		}
		for _, to := range regexp.MustCompile(`(?:aria-labelledby="|href="#)([^"]*)"`).FindAllStringSubmatch(page, -1) {
			require.True(t, seen[to[1]], "nothing is %s", to[1])
		}
		require.NotRegexp(t, ` style="| on[a-z]+="`, page, "the policy forbids it")
		require.NotRegexp(t, `<script>|<style`, page)
	}
}
