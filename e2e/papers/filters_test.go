package papers

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFiltersNameCases: a -run of the papers and the Makefile finds a case. go test
// passes when a filter finds none.
func TestFiltersNameCases(t *testing.T) {
	cases, err := Cases(filepath.Join(root, "e2e"))
	require.NoError(t, err)
	kube, err := Cases(filepath.Join(root, "e2e", "kube"))
	require.NoError(t, err)
	maps.Copy(cases, kube)
	require.Contains(t, cases["TestLimits"], Case{Name: "GPUs", On: "either"})
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	assert.Empty(t, Idle(string(makefile), cases), "Makefile")
	found := filter.FindAllString(string(makefile), -1)
	for _, p := range readAll(t) {
		for i, code := range p.Code() {
			found = append(found, filter.FindAllString(code, -1)...)
			assert.Empty(t, Idle(code, cases), "%s:%d", p.Path, i+1)
		}
	}
	require.GreaterOrEqual(t, len(found), 3)
}

func TestIdle(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(`package a
var more = []testCase{{"a pod", nil}}
var points = []point{{"a point", nil}}
func made() (all []testCase) {
	for _, p := range points {
		all = append(all, testCase{"killed: " + p.name, nil})
	}
	return all
}
func TestOne(t *testing.T) { run(t, []testCase{{"one two", f, both}}, inTime(more), made(), bed{name: "x"}, []string{"not", "this"}) }
func TestTwo(t *testing.T) { run(t, []testCase{{"GPUs", f}, {"a pod is set up", f}, {"a pod is set down", f}}) }
func TestThree(t *testing.T) { f() }
`), 0o644))
	cases, err := Cases(dir)
	require.NoError(t, err)
	assert.Equal(t, map[string][]Case{
		"TestOne": {{Name: "one_two", On: "both"}, {Name: "a_pod", Full: true}, {Name: "killed:_", Open: true}},
		"TestTwo": {{Name: "GPUs"}, {Name: "a_pod_is_set_up"}, {Name: "a_pod_is_set_down"}},
	}, cases)
	for text, want := range map[string]string{
		"go test -run 'TestTwo/.*/GPUs' ./e2e":             "",
		"go test -run TestOne/one ./e2e":                   "",
		"go test -run 'TestOne/.*/GPUs' ./e2e":             "TestOne has no case GPUs",
		"go test -run 'TestTwo/(GPUs|a_pod_(is|was)_set)'": "TestTwo has no case a_pod_was_set",
		"go test -run 'TestThree/x' ./e2e":                 "TestThree: no such test has cases",
		"go test -run 'TestThree|TestOne' ./e2e":           "",
	} {
		assert.Equal(t, want, strings.Join(Idle(text, cases), "\n"), text)
	}
}
