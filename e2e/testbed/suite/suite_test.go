package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// play runs steps whose program is a shell script that gets the step's name.
func play(t *testing.T, beside int, script string, chosen ...step) (*suite, bool) {
	dir := t.TempDir()
	program := filepath.Join(dir, "make")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ncd "+dir+"\n"+script), 0o755))
	s := newSuite(program, dir, beside)
	return s, s.runAll(t.Context(), chosen)
}

func (s *suite) named(name string) *run {
	return s.order[slices.IndexFunc(s.order, func(r *run) bool { return r.name == name })]
}

func TestStepsWaitForWhatTheyNeed(t *testing.T) {
	s, ok := play(t, 2, `[ $1 != b ] || [ -e a ] || exit 1; touch $1`,
		step{name: "b", needs: []string{"a"}, limit: time.Minute}, step{name: "a", limit: time.Minute})
	assert.True(t, ok)
	assert.NoError(t, s.named("b").err)
}

func TestAStepThatFails(t *testing.T) {
	s, ok := play(t, 1, `echo "--- FAIL: TestX"; [ $1 = c ]`,
		step{name: "a", limit: time.Minute}, step{name: "b", needs: []string{"a"}, limit: time.Minute}, step{name: "c", limit: time.Minute})
	assert.False(t, ok)
	assert.EqualError(t, s.named("b").err, "not run: a failed")
	assert.NoError(t, s.named("c").err, "the others are run")
	assert.Equal(t, "--- FAIL: TestX\n", whatFailed(s.log(s.named("a"))))
}

func TestAStepThatDoesNotEnd(t *testing.T) {
	s, ok := play(t, 1, `sleep 1000 & echo $! > child; wait`, step{name: "a", limit: 300 * time.Millisecond})
	assert.False(t, ok)
	assert.EqualError(t, s.named("a").err, "it was not over after 300ms")
	text, err := os.ReadFile(filepath.Join(s.logs, "child"))
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	assert.Eventually(t, func() bool {
		p, err := procfs.NewProc(child)
		if err != nil {
			return true
		}
		stat, err := p.Stat()
		return err != nil || stat.State == "Z"
	}, 10*time.Second, 10*time.Millisecond, "its processes end with it")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	s := newSuite("true", t.TempDir(), 1)
	assert.False(t, s.runAll(ctx, []step{{name: "a", limit: time.Minute}}))
	assert.EqualError(t, s.named("a").err, "interrupted")
}

func TestChoose(t *testing.T) {
	all, err := choose(nil)
	require.NoError(t, err)
	assert.Equal(t, steps, all)
	some, err := choose([]string{"native", "lint"})
	require.NoError(t, err)
	require.Len(t, some, 2)
	assert.Empty(t, some[0].needs, "what was not chosen is there already")
	_, err = choose([]string{"lnt"})
	assert.ErrorContains(t, err, `no step "lnt"; there are: build roots registry native`)
}

func TestWhatFailed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	assert.Contains(t, whatFailed(log), "no such file")
	require.NoError(t, os.WriteFile(log, []byte(strings.Repeat("ok\n", 100)+"boom"), 0o644))
	assert.Equal(t, 60, strings.Count(whatFailed(log), "\n")+1)
	assert.Equal(t, "boom", lastLine(log))
	require.NoError(t, os.WriteFile(log, []byte("noise\n    --- FAIL: TestA/b (1s)\n        Error Trace: x\n"+strings.Repeat("more\n", 30)), 0o644))
	told := whatFailed(log)
	assert.NotContains(t, told, "noise")
	assert.Contains(t, told, "TestA/b")
	assert.Equal(t, 1+after, strings.Count(told, "\n"))
}

func TestInShort(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	assert.Empty(t, inShort(log))
	require.NoError(t, os.WriteFile(log, []byte(`
    x_test.go:5: 
        	Error Trace:	x_test.go:5
        	Error:      	Not equal: 
        	            	expected: 1
        	            	actual  : 2
        	Test:       	TestX/a_case
        	Messages:   	why,
        	            	and what then
    y_test.go:7: something else
`), 0o644))
	assert.Equal(t, []string{"TestX/a_case: Not equal: expected: 1 actual : 2 why, and what then"}, inShort(log))
}

func TestAStepAlone(t *testing.T) {
	s, ok := play(t, 2, `mkdir one || exit 1; sleep 0.1; rmdir one`,
		step{name: "a", limit: time.Minute, kind: alone}, step{name: "b", needs: []string{"a"}, limit: time.Minute, kind: alone}, step{name: "c", limit: time.Minute})
	assert.True(t, ok)
	assert.True(t, s.named("b").began.Before(s.named("c").began), "what comes after it does not go first")
}

func TestUrgentSteps(t *testing.T) {
	s, ok := play(t, 3, `
		case $1 in
		urgent) touch begun; until [ -e beside ]; do sleep 0.1; done
			[ ! -e /proc/self/autogroup ] || [ $(id -u) != 0 ] || grep -q 'nice -7' /proc/self/autogroup;;
		loud) until [ -e begun ]; do sleep 0.1; done; touch beside;;
		esac`,
		step{name: "urgent", limit: time.Minute, kind: urgent}, step{name: "loud", limit: time.Minute}, step{name: "alone", limit: time.Minute, kind: alone})
	assert.True(t, ok, "a loud step runs beside it, on the time that it leaves")
	assert.GreaterOrEqual(t, s.named("alone").began.Sub(s.named("urgent").began), s.named("urgent").took, "one that is to be alone is")
}

func TestQuietSteps(t *testing.T) {
	_, ok := play(t, 2, `
		case $1 in
		quiet) touch quiet; until [ -e alone ]; do sleep 0.1; done
			[ ! -e /proc/self/autogroup ] || [ $(id -u) != 0 ] || grep -q 'nice -5' /proc/self/autogroup;;
		alone) until [ -e quiet ]; do sleep 0.1; done; touch alone;;
		esac`,
		step{name: "alone", limit: time.Minute, kind: alone}, step{name: "quiet", limit: time.Minute, kind: quiet})
	assert.True(t, ok, "a quiet one runs beside one that runs alone")
}

func TestLoudSteps(t *testing.T) {
	_, ok := play(t, 9, `
		case $1 in
		calm) touch calm;;
		*) mkdir in.$1; [ $(ls -d in.* | wc -l) -le 3 ] || exit 1
			until [ -e calm ]; do sleep 0.1; done; sleep 0.1; rmdir in.$1;;
		esac`,
		step{name: "a", limit: time.Minute}, step{name: "b", limit: time.Minute}, step{name: "c", limit: time.Minute}, step{name: "d", limit: time.Minute},
		step{name: "calm", limit: time.Minute, kind: calm})
	assert.True(t, ok, "three run beside each other, and a calm one beside them")
}

func TestTheFirstGoesFirst(t *testing.T) {
	s, ok := play(t, 1, `true`, step{name: "a", limit: time.Minute, needs: []string{"b"}}, step{name: "b", limit: time.Minute}, step{name: "c", limit: time.Minute})
	assert.True(t, ok)
	assert.True(t, s.named("a").began.Before(s.named("c").began), "as soon as it may run")
}

func TestCalmSteps(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("only root gets the usual priority back")
	}
	_, ok := play(t, 2, `
		until_nice() { until [ $(ps -o ni= -p $2) = $1 ]; do sleep 0.1; done; }
		until_share() { [ ! -e /proc/$$/autogroup ] || until grep -q "nice $1" /proc/$$/autogroup; do sleep 0.1; done; }
		case $1 in
		calm) until_nice 19 $$; until_share 5
			setsid sh -c 'while [ -e make ]; do sleep 0.1; done' & # in a group of its own
			until_nice 19 $!; touch low; until_nice 0 $$; until_share 0; until_nice 0 $!; kill $!;;
		first) until [ -e low ]; do sleep 0.1; done;;
		esac`,
		step{name: "first", limit: time.Minute, kind: alone}, step{name: "calm", limit: time.Minute, kind: calm}, step{name: "last", limit: time.Minute})
	assert.True(t, ok, "a calm step runs beside one that runs alone, with the lowest priority until that one ends")
}

func TestRepeats(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, []byte(`--- FAIL: TestSlurm (60.00s)
    --- FAIL: TestSlurm/24.11#03 (50.00s)
        --- FAIL: TestSlurm/24.11#03/pods_that_are_killed (10.00s)
        --- FAIL: TestSlurm/24.11#03/a_pod_(of_alice's) (10.00s)
        --- PASS: TestSlurm/24.11#03/jobs_run (1.00s)
FAIL
FAIL	github.com/slurmlet/slurmlet/e2e	61.000s
ok  	github.com/slurmlet/slurmlet/e2e/native/ends	52.463s
--- FAIL: TestHang (2.00s)
FAIL	github.com/slurmlet/slurmlet/e2e/native/hang	3.000s
`), 0o644))
	assert.Equal(t, []string{
		`make && go test -tags e2e -count=1 -v -run 'TestHang' ./e2e/native/hang`,
		`make && go test -tags e2e -count=1 -v -run 'TestSlurm/24.11/a_pod_\(of_alice.s\)' ./e2e`,
		`make && go test -tags e2e -count=1 -v -run 'TestSlurm/24.11/pods_that_are_killed' ./e2e`,
	}, repeats("native", log))
	assert.Equal(t, []string{"make kube"}, repeats("kube", log), "its tests need programs that the Makefile builds")
	require.NoError(t, os.WriteFile(log, []byte("make: *** [native] Error 1\n"), 0o644))
	assert.Equal(t, []string{"make native"}, repeats("native", log))
}

func TestAfter(t *testing.T) {
	s, ok := play(t, 2, `[ $1 != a ]`, step{name: "a", limit: time.Minute}, step{name: "b", after: []string{"a", "not chosen"}, limit: time.Minute})
	assert.False(t, ok)
	a, b := s.named("a"), s.named("b")
	assert.NoError(t, b.err, "it does not need it")
	assert.False(t, b.began.Before(a.began.Add(a.took)))
}
