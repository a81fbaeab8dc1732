package people

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uidOf gives each name of a story a uid of its own.
func uidOf(name string) int {
	if name == "root" {
		return 0
	}
	sum := firstUID
	for _, c := range name {
		sum = sum*31%50000 + int(c)
	}
	return firstUID + sum
}

func named(names string) map[string]int {
	all := map[string]int{}
	for name := range strings.FieldsSeq(names) {
		all[name] = uidOf(name)
	}
	return all
}

// round is a look of a story, a quarter of a minute after the one before.
type round struct {
	// list is "-" for none.
	list, present string
	// answers are name=here, locked, gone, unsure; sssd is another one than before if it has another number.
	answers, confirmed string
	sssd, later        int
	end, wait          string
}

var answerOf = map[string]Answer{"here": Here, "locked": Locked, "gone": Gone, "unsure": Unsure}

func play(t *testing.T, r Record, story []round) {
	now, sssd := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC), 0
	for i, one := range story {
		now = now.Add(15*time.Second + time.Duration(one.later)*time.Minute)
		f := Facts{
			Now: now, HasList: one.list != "-", Locals: named("root alice"), Present: named(one.present), SameDirectory: one.sssd == sssd,
			Answers: map[string]Answer{}, Confirmed: map[string]bool{},
		}
		if f.HasList {
			f.List = named(one.list)
		}
		for name := range named(one.confirmed) {
			f.Confirmed[name] = true
		}
		for text := range strings.FieldsSeq(one.answers) {
			name, word, _ := strings.Cut(text, "=")
			f.Answers[name] = answerOf[word]
		}
		sssd = one.sssd
		v := r.Judge(f)
		var end, wait []string
		for _, p := range v.Leavers {
			require.Equal(t, uidOf(p.Name), p.UID)
			end = append(end, p.Name)
		}
		for _, w := range v.Waiting {
			require.NotEmpty(t, w.Why)
			wait = append(wait, w.Name)
		}
		assert.Equal(t, one.end, strings.Join(end, " "), "round %d ends", i)
		assert.Equal(t, one.wait, strings.Join(wait, " "), "round %d waits", i)
	}
}

func TestJudge(t *testing.T) {
	five := "ada bea cid dan eve"
	var crowd []string
	for i := range 100 {
		crowd = append(crowd, fmt.Sprintf("user%d", i))
	}
	all := strings.Join(crowd, " ")
	for name, story := range map[string][]round{
		"a name is taken out of the list": {
			{list: five, present: five},
			{list: "ada bea cid dan", present: five, end: "eve"},
			{list: "ada bea cid dan", present: five, end: "eve"},
			{list: "ada bea cid dan", present: "ada"},
		},
		"a name that comes back": {
			{list: five, present: five}, {list: "ada bea cid dan", present: five, end: "eve"}, {list: five, present: five},
		},
		"somebody whom the list never had": {{list: five, present: five + " fay"}, {list: five, present: five + " fay"}},
		"users of the image, and root":     {{list: five + " alice root", present: "alice root"}, {list: five, present: "alice root"}},
		"the list is gone":                 {{list: five, present: five}, {list: "-", present: five}},
		"the list is empty": {
			{list: five, present: five},
			{list: "", present: five, wait: five},
			{list: "", present: five, confirmed: "eve", wait: "ada bea cid dan", end: "eve"},
		},
		"the only one of the list": {{list: "ada", present: "ada"}, {list: "", present: "ada", wait: "ada"}},
		"three of five wait, also as others come back": {
			{list: five, present: five},
			{list: "ada bea", present: five, wait: "cid dan eve"},
			{list: "ada bea cid dan", present: five, wait: "eve"},
			{list: "ada bea cid dan", present: five, wait: "eve", later: 60},
			{list: "ada bea cid dan", present: five, confirmed: "eve", end: "eve"},
			{list: "ada bea cid dan", present: five, end: "eve"},
		},
		"one by one is as many": {
			{list: five, present: five},
			{list: "ada bea cid dan", present: five, end: "eve"},
			{list: "ada bea cid", present: five, end: "dan eve"},
			{list: "ada bea", present: five, wait: "cid", end: "dan eve"},
			{list: "ada bea", present: five, wait: "cid", end: "dan eve", later: 30},
		},
		"one by one, and not at once": {
			{list: five, present: five},
			{list: "ada bea cid dan", present: five, end: "eve"},
			{list: "ada bea cid", present: "ada bea cid dan", end: "dan", later: 11},
			{list: "ada bea", present: "ada bea cid", end: "cid", later: 11},
		},
		"five of a hundred do not wait": {
			{list: all, present: all}, {list: strings.Join(crowd[5:], " "), present: all, end: strings.Join(slices.Sorted(slices.Values(crowd[:5])), " ")},
		},
		"six of a hundred do": {
			{list: all, present: all}, {list: strings.Join(crowd[6:], " "), present: all, wait: strings.Join(slices.Sorted(slices.Values(crowd[:6])), " ")},
		},
		"from the list into the directory": {
			{list: five, present: five},
			{list: "ada bea cid dan", present: five, answers: "eve=here"},
			{list: "ada bea cid dan", present: five, answers: "eve=unsure"},
		},
		"out of the list, and the directory says nothing": {
			{list: five, present: five},
			{list: "ada bea cid dan", present: five, answers: "eve=unsure"},
			{list: "ada bea cid dan", present: five, answers: "eve=gone", end: "eve"},
		},
		"an account is locked": {
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
			{list: "-", present: "ada bea", answers: "ada=here bea=locked"},
			{list: "-", present: "ada bea", answers: "ada=here bea=locked", end: "bea"},
			{list: "-", present: "ada bea", answers: "ada=here bea=locked", end: "bea"},
			{list: "-", present: "ada", answers: "ada=here"},
			{list: "-", present: "ada bea", answers: "ada=here bea=locked", end: "bea", later: 60},
		},
		"an account is gone": {
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone", end: "bea"},
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone"},
		},
		"silence and errors": {
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone"},
			{list: "-", present: "ada bea", answers: "ada=here bea=unsure"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone"},
			{list: "-", present: "ada bea"},
			{list: "-", present: "ada bea", answers: "ada=unsure bea=unsure"},
		},
		"an empty tree": {
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
			{list: "-", present: "ada bea", answers: "ada=gone bea=gone"},
			{list: "-", present: "ada bea", answers: "ada=gone bea=gone", wait: "ada bea"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone", wait: "bea"},
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
		},
		"another sssd that is off-line": {
			{list: "-", present: "ada bea", answers: "ada=here bea=here"},
			{list: "-", present: "ada bea", answers: "ada=gone bea=gone", sssd: 1},
			{list: "-", present: "ada bea", answers: "ada=gone bea=gone", sssd: 1, wait: "ada bea"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone", sssd: 1, wait: "bea"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone", sssd: 1, confirmed: "bea", end: "bea"},
		},
		"whom the directory has never let in": {
			{list: "-", present: "ada bea", answers: "ada=here bea=locked"},
			{list: "-", present: "ada bea", answers: "ada=here bea=locked"},
			{list: "-", present: "ada bea", answers: "ada=here bea=gone"},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, Record{}, story) })
	}
}

// TestAnotherNameOfAUID: who has the uid of a leaver under another name keeps what the uid has.
func TestAnotherNameOfAUID(t *testing.T) {
	r := Record{}
	f := Facts{Now: time.Unix(1e9, 0), HasList: true, List: map[string]int{"ada": 2000, "bea": 2001}, Present: map[string]int{"ada": 2000}}
	require.Empty(t, r.Judge(f))
	f.List = map[string]int{"adele": 2000, "bea": 2001}
	require.Empty(t, r.Judge(f))
	require.NotContains(t, r, "ada")
	f.Locals = map[string]int{"image": 2001}
	f.List = map[string]int{"adele": 2000}
	f.Present = map[string]int{"bea": 2001}
	require.Empty(t, r.Judge(f))
}

// TestOneUIDOfTwo: bob of the list and carol of the directory have one uid. What ends by it when bob leaves may be carol's, so
// bob waits for a confirmation.
func TestOneUIDOfTwo(t *testing.T) {
	r := Record{}
	f := Facts{
		Now: time.Unix(1e9, 0), HasList: true, List: map[string]int{"ada": 2000, "bob": 2001}, SameDirectory: true,
		Present: map[string]int{"bob": 2001, "carol": 2001}, Answers: map[string]Answer{"carol": Here},
	}
	require.Empty(t, r.Judge(f))
	f.List = map[string]int{"ada": 2000}
	for range 2 {
		f.Now = f.Now.Add(time.Hour)
		v := r.Judge(f)
		require.Empty(t, v.Leavers)
		require.Equal(t, []Waiting{{"bob", "carol has the same uid, 2001"}}, v.Waiting)
	}
	f.Confirmed = map[string]bool{"bob": true}
	require.Len(t, r.Judge(f).Leavers, 1)
}

// FuzzJudge: nobody ends who is in the list, whom the directory lets in, of whom nothing certain is known, or who is no person
// of theirs; and few end at once without a confirmation.
func FuzzJudge(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(42))
	f.Fuzz(func(t *testing.T, seed uint64) {
		chance := rand.New(rand.NewPCG(seed, 1))
		names := []string{"root", "alice"}
		for i := range 3 + chance.IntN(60) {
			names = append(names, fmt.Sprintf("u%d", i))
		}
		some := func(of int) map[string]int {
			all := map[string]int{}
			for _, name := range names {
				if chance.IntN(100) < of {
					all[name] = uidOf(name)
				}
			}
			return all
		}
		r, ever, now := Record{}, map[string]bool{}, time.Unix(1e9, 0)
		for range 30 {
			now = now.Add(time.Duration(chance.IntN(120)) * time.Second)
			facts := Facts{
				Now: now, HasList: chance.IntN(4) > 0, Locals: named("root alice"), Present: some(60), Answers: map[string]Answer{},
				SameDirectory: chance.IntN(5) > 0, Confirmed: map[string]bool{},
			}
			if facts.HasList {
				facts.List = some([]int{0, 50, 95, 100}[chance.IntN(4)])
			}
			for name := range some([]int{0, 90}[chance.IntN(2)]) {
				facts.Answers[name] = Answer(chance.IntN(5))
			}
			for name := range some(5) {
				facts.Confirmed[name] = true
			}
			known, atOnceNow := len(r), 0
			for _, p := range r.Judge(facts).Leavers {
				_, listed := facts.List[p.Name]
				require.False(t, listed, "%s is in the list", p.Name)
				require.NotEqual(t, Here, facts.Answers[p.Name])
				require.NotEqual(t, Unsure, facts.Answers[p.Name])
				require.True(t, ever[p.Name], "%s was in no list, and nobody has let %[1]s in", p.Name)
				require.NotContains(t, []string{"root", "alice"}, p.Name)
				require.GreaterOrEqual(t, p.UID, firstUID)
				if !facts.Confirmed[p.Name] && p.Left.Equal(now) {
					atOnceNow++
				}
			}
			require.LessOrEqual(t, atOnceNow, max(fewest-1, max(known, len(r))/twentieth))
			for name := range facts.List {
				ever[name] = true
			}
			for name, answer := range facts.Answers {
				ever[name] = ever[name] || answer == Here
			}
		}
		for name, p := range maps.All(r) {
			require.Equal(t, name, p.Name)
		}
	})
}

func TestParsePasswd(t *testing.T) {
	list, err := parsePasswd("ada:*:2000:2000::/home/ada:/bin/bash\n\n# a comment\nbea:*:2001:3000::/data:/bin/zsh\n")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"ada": 2000, "bea": 2001}, list)
	for _, bad := range []string{"ada:*:2000:2000::/home/ada:/bin/bash\nbea:*", "ada\n", "ada:*:x:1::/:/\n", ":*:1:1::/:/\n", "ada:*:-1:1::/:/\n"} {
		_, err := parsePasswd(bad)
		require.Error(t, err, bad)
	}
}
