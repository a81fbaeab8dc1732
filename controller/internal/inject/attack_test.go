package inject

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// reviewOf is a review of a pod's JSON, which need be none.
func reviewOf(pod string) []byte {
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":` + pod + `}}`)
}

// full repeats a text until a review is as long as one may be.
func full(before, text, after string) string {
	return before + strings.Repeat(text, (maxReview-len(reviewOf(""))-len(before)-len(after))/len(text)) + after
}

// asks begins a pod that asks for the agent.
const asks = `{"metadata":{"name":"a","annotations":{"slurmlet.dev/inject":"slurmd"`

// TestAttacks has reviews that are as dear as a stranger can make them. What one takes is bounded, in bytes
// that are taken in all, given back or not.
func TestAttacks(t *testing.T) {
	variable := func(n int) string { return fmt.Sprintf(`{"name":"VARIABLE_%d","value":"x"}`, n) }
	managed := func(n int) string {
		return fmt.Sprintf(`"k:{\"name\":\"VARIABLE_%d\"}":{".":{},"f:name":{},"f:value":{}}`, n)
	}
	many := func(most int, one func(int) string) string {
		var all []string
		for n := range most {
			all = append(all, one(n))
		}
		return strings.Join(all, ",")
	}
	named := func(n int) string { return fmt.Sprintf(`"a%d":"1"`, n) }
	long := strings.Repeat("a", maxReview/2)
	for name, c := range map[string]struct {
		pod    string
		status int
		mib    uint64
	}{
		"a large pod": {
			asks + `},"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"slurm\"}":{"f:env":{` + many(1000, managed) +
				`}}}}}}]},"spec":{"containers":[{"name":"slurm","image":"i","env":[` + many(1000, variable) + `]}]}}`,
			http.StatusOK, 16,
		},
		"containers":                                {full(`{"spec":{"containers":[`, `{},`, `{}]}}`), http.StatusRequestEntityTooLarge, 4},
		"containers that are null":                  {full(`{"spec":{"containers":[`, `null,`, `{}]}}`), http.StatusRequestEntityTooLarge, 4},
		"containers that are numbers":               {full(`{"spec":{"containers":[`, `0,`, `0]}}`), http.StatusRequestEntityTooLarge, 4},
		"containers that are lists":                 {full(`{"spec":{"containers":[`, `[],`, `[]]}}`), http.StatusRequestEntityTooLarge, 4},
		"containers that are text":                  {full(`{"spec":{"containers":[`, `"",`, `""]}}`), http.StatusRequestEntityTooLarge, 4},
		"as many containers as there may be":        {`{"spec":{"containers":[` + strings.Repeat("{},", maxElements-2) + `{}]}}`, http.StatusOK, 16},
		"as many as there may be, of one that asks": {asks + `,"slurmlet.dev/container":"a"}},"spec":{"containers":[` + strings.Repeat("{},", maxElements-2) + `{"name":"a"}]}}`, http.StatusOK, 32},
		"gates":                                  {full(asks+`}},"spec":{"containers":[{"name":"a"}],"schedulingGates":[{"name":"slurmlet.dev/inject"},`, `{"name":"other"},`, `{}]}}`), http.StatusRequestEntityTooLarge, 4},
		"labels of one name":                     {full(`{"metadata":{"labels":{`, `"":"",`, `"":""}}}`), http.StatusRequestEntityTooLarge, 4},
		"annotations that nobody reads":          {asks + "," + many(1000, func(n int) string { return fmt.Sprintf(`"slurmlet.dev/%d":""`, n) }) + `}},"spec":{"containers":[{}]}}`, http.StatusOK, 16},
		"labels":                                 {asks + `},"labels":{` + many(maxValues-100, named) + `}},"spec":{"containers":[{}]}}`, http.StatusOK, 48},
		"resources":                              {asks + `}},"spec":{"containers":[{"resources":{"limits":{` + many(maxValues-100, named) + `}}}]}}`, http.StatusOK, 48},
		"faults of a container with a long name": {asks + `}},"spec":{"containers":[{"name":"` + long + `","volumeMounts":[` + strings.Repeat(`{"mountPath":"/opt/slurmlet"},`, maxElements-10) + `{}]}]}}`, http.StatusOK, 16},
		"an answer that is longer than the pod":  {asks + `,"slurmlet.dev/container":"` + strings.Repeat(`\u0001`, maxReview/8) + `"}},"spec":{"containers":[{}]}}`, http.StatusRequestEntityTooLarge, 32},
	} {
		t.Run(name, func(t *testing.T) {
			body := reviewOf(c.pod)
			require.LessOrEqual(t, len(body), maxReview)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := ask(t, body)
			runtime.ReadMemStats(&after)
			taken := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d kB, %d MiB", len(body)>>10, taken)
			assert.Equal(t, c.status, w.Code, "%.200s", w.Body)
			assert.LessOrEqual(t, w.Body.Len(), maxAnswer)
			assert.LessOrEqual(t, taken, c.mib, "MiB")
		})
	}
}

func TestWeigh(t *testing.T) {
	for text, want := range map[string][2]int{
		``:                             {0, 0},
		`0`:                            {0, 0},
		`{}`:                           {0, 1},
		`[]`:                           {1, 1},
		`[0, 0]`:                       {2, 2},
		`{"a": 0, "b": 0}`:             {0, 2},
		`[{"a": 0, "b": 0}, 0, []]`:    {4, 6},
		`{"a": [0, 0], "b": 0}`:        {2, 4},
		`["[,{", "\",[", "\\", "\\\"]`: {4, 4},
		`]]}}[0,0`:                     {2, 2},
		`"`:                            {0, 0},
		`"\`:                           {0, 0},
	} {
		inArrays, all := weigh([]byte(text))
		assert.Equal(t, want, [2]int{inArrays, all}, text)
	}
}

// FuzzWeigh: a JSON text has no more than weigh says.
func FuzzWeigh(f *testing.F) {
	f.Add([]byte(`{"a":[0,{"b":[]},"\"["],"c":null}`))
	var elements, values func(any) int
	elements = func(value any) (n int) {
		switch value := value.(type) {
		case []any:
			n = len(value)
			for _, v := range value {
				n += elements(v)
			}
		case map[string]any:
			for _, v := range value {
				n += elements(v)
			}
		}
		return n
	}
	values = func(value any) (n int) {
		switch value := value.(type) {
		case []any:
			n = len(value)
			for _, v := range value {
				n += values(v)
			}
		case map[string]any:
			n = len(value)
			for _, v := range value {
				n += values(v)
			}
		}
		return n
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		inArrays, all := weigh(text)
		var value any
		if json.Unmarshal(text, &value) != nil {
			return
		}
		require.LessOrEqual(t, elements(value), inArrays, "%s", text)
		require.LessOrEqual(t, values(value), all, "%s", text)
	})
}

// TestThousandsOfGates took minutes once.
func TestThousandsOfGates(t *testing.T) {
	before := parsePod(t, changed("slurmd", "", "", ""))
	for n := range 34_900 {
		name := "other"
		if n%3 == 0 {
			name = gate
		}
		before.Spec.SchedulingGates = append(before.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
	}
	result, faults := Pod(before, settings)
	require.Empty(t, faults)
	operations, err := Patch(before, result.Pod)
	require.NoError(t, err)
	removed := 0
	for _, o := range operations {
		if o.Op == "remove" && strings.HasPrefix(o.Path, "/spec/schedulingGates/") {
			removed++
		}
	}
	assert.Equal(t, 11_634, removed)
}

// TestPatchOfLists makes one list of another, and applies it as the API server does.
func TestPatchOfLists(t *testing.T) {
	for _, c := range []struct{ from, to, operations string }{
		{"abc", "abc", ""},
		{"abc", "xabc", "add"},
		{"abc", "abcx", "add"},
		{"abc", "axcy", "replace add"},
		{"abc", "xbc", "replace"},
		{"abc", "bc", "remove"},
		{"abc", "ab", "remove"},
		{"abc", "b", "remove remove"},
		{"aab", "ab", "remove"},
		{"abab", "bb", "remove remove"},
		{"abc", "", "remove"}, // the list itself
		{"abc", "cb", "replace"},
		{"abc", "x", "replace"},
		{"aba", "aab"[1:], "remove"},
		{"abc", "bb", "replace"},
	} {
		pod := func(names string) *corev1.Pod {
			p := &corev1.Pod{}
			for _, name := range names {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: string(name)})
			}
			return p
		}
		operations, err := Patch(pod(c.from), pod(c.to))
		require.NoError(t, err)
		var kinds []string
		for _, o := range operations {
			kinds = append(kinds, o.Op)
		}
		assert.Equal(t, c.operations, strings.Join(kinds, " "), c)
		text, err := json.Marshal(operations)
		require.NoError(t, err)
		if len(operations) == 0 {
			continue
		}
		patch, err := jsonpatch.DecodePatch(text)
		require.NoError(t, err)
		from, err := json.Marshal(pod(c.from))
		require.NoError(t, err)
		want, err := json.Marshal(pod(c.to))
		require.NoError(t, err)
		have, err := patch.Apply(from)
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(have), c)
	}
}

// TestTheDesk fills all places, and has one more review come.
func TestTheDesk(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(release, reset func())
		status    int
		after     time.Duration
		worked    bool
	}{
		"a place gets free":   {func(release, _ func()) { time.AfterFunc(time.Second, release) }, http.StatusOK, time.Second, true},
		"none gets free":      {func(_, _ func()) {}, http.StatusServiceUnavailable, workTime, false},
		"the client hangs up": {func(_, reset func()) { time.AfterFunc(time.Second, reset) }, http.StatusServiceUnavailable, time.Second, false},
		"both at once":        {func(release, reset func()) { reset(); release() }, http.StatusServiceUnavailable, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, worked := make(slots, workers), false
				for range workers {
					d <- struct{}{}
				}
				ctx, reset := context.WithCancel(t.Context())
				defer reset()
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, Path, bytes.NewReader([]byte("{}")))
				r.Header.Set("Content-Type", "application/json")
				w, began := httptest.NewRecorder(), time.Now()
				c.meanwhile(func() { <-d }, reset)
				handlerOf(d, workTime, func([]byte) ([]byte, int, error) { worked = true; return []byte("done"), 0, nil }).ServeHTTP(w, r)
				assert.Equal(t, c.status, w.Code)
				assert.Equal(t, c.after, time.Since(began))
				assert.Equal(t, c.worked, worked)
				assert.Equal(t, c.status == http.StatusServiceUnavailable, w.Header().Get("Retry-After") != "")
				held := workers
				if name == "a place gets free" || name == "both at once" {
					held--
				}
				assert.Len(t, d, held, "it gives its place back")
			})
		})
	}
}
