// Command suite runs everything that `make test` is: steps beside each other, most of which wait rather than compute.
// It prints a line when a step begins and ends, and every half minute what runs and the last that was heard of it. All
// that a step prints is in bin/test/NAME.log; of a step that fails, the part that matters is printed in the end.
//
//	go run ./e2e/suite -make make          # as make test does
//	go run ./e2e/suite -make make lint unit
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// step is a target of the Makefile.
type step struct {
	name, what string
	// needs are steps that must have ended well.
	needs []string
	limit time.Duration
	kind  kind
}

// kind says what a step may run beside.
type kind int

const (
	// loud is for clusters with time to spare, beside each other.
	loud kind = iota
	// alone is for clusters whose agents have seconds for what they do: only calm steps run beside them.
	alone
	// calm is for what computes, on the time that the others leave (nice(1)).
	calm
)

// steps are in the order in which they begin, as far as beside lets them.
var steps = []step{
	{"roots", "Slurm's root file systems", nil, 20 * time.Minute, alone},
	{"native", "real Slurm, both versions, without limits", []string{"roots"}, 30 * time.Minute, alone},
	{"tools", "helm, its unit tests, buildx and buildkitd", nil, 30 * time.Minute, calm},
	{"kernel", "the kernel of the sandbox", []string{"roots"}, 40 * time.Minute, calm},
	{"kubernetes", "the programs of Kubernetes", []string{"kernel"}, 50 * time.Minute, calm},
	{"lint", "vet and the linters", nil, 30 * time.Minute, calm},
	{"unit", "tests that need nothing but this machine", nil, 30 * time.Minute, calm},
	{"images", "the images", []string{"tools"}, 40 * time.Minute, calm},
	{"charts", "the charts, the images' definition and the papers", []string{"tools"}, 30 * time.Minute, calm},
	{"limits", "real Slurm, both versions, with cgroup v2", []string{"kernel"}, 40 * time.Minute, loud},
	{"kube", "the chart on real Kubernetes", []string{"images", "kubernetes"}, 60 * time.Minute, loud},
	{"short", "short forms of bench, scale and steps", []string{"roots"}, 20 * time.Minute, loud},
}

// report is how often the suite says what runs.
const report = 30 * time.Second

func main() {
	program := flag.String("make", "make", "the `program` that runs a step, with the step's name as its argument")
	beside := flag.Int("beside", 2, "`how many` steps run beside each other")
	logs := flag.String("logs", "bin/test", "the `directory` of the steps' logs")
	flag.Parse()
	chosen, err := choose(flag.Args())
	if err == nil {
		err = os.MkdirAll(*logs, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	s := &suite{program: *program, logs: *logs, began: time.Now(), slots: make(chan struct{}, *beside), runs: map[string]*run{}}
	if !s.runAll(ctx, chosen) {
		os.Exit(1)
	}
}

// choose returns the named steps, all without a name. What a chosen step needs counts only if it is chosen, too.
func choose(names []string) ([]step, error) {
	for _, name := range names {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			return nil, fmt.Errorf("no step %q; there are: %s", name, strings.Join(allNames(), " "))
		}
	}
	var chosen []step
	for _, one := range steps {
		if len(names) > 0 && !slices.Contains(names, one.name) {
			continue
		}
		if len(names) > 0 {
			one.needs = slices.DeleteFunc(slices.Clone(one.needs), func(need string) bool { return !slices.Contains(names, need) })
		}
		chosen = append(chosen, one)
	}
	return chosen, nil
}

func allNames() (names []string) {
	for _, one := range steps {
		names = append(names, one.name)
	}
	return names
}

type suite struct {
	program, logs string
	began         time.Time
	slots         chan struct{}
	// quiet is locked by a step that runs alone, and read-locked by the loud ones.
	quiet sync.RWMutex
	out   sync.Mutex

	lock sync.Mutex
	runs map[string]*run
}

// run is a step that was begun, or could not be.
type run struct {
	step
	began time.Time
	took  time.Duration
	err   error
	ended chan struct{}
}

func (s *suite) say(format string, args ...any) {
	s.out.Lock()
	defer s.out.Unlock()
	fmt.Printf("[%5s] %s\n", clock(time.Since(s.began)), fmt.Sprintf(format, args...))
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func (s *suite) runAll(ctx context.Context, chosen []step) bool {
	for _, one := range chosen {
		s.runs[one.name] = &run{step: one, ended: make(chan struct{})}
	}
	var all sync.WaitGroup
	turn := make(chan struct{}) // closed when the step before has its slot, or waits for none
	close(turn)
	for _, one := range chosen {
		mine, next := turn, make(chan struct{})
		turn = next
		all.Go(func() { s.take(ctx, s.runs[one.name], mine, next) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for ticks := time.Tick(report); ; {
		select {
		case <-ticks:
			s.tellProgress()
			continue
		case <-done:
		}
		return s.tellEnd(chosen)
	}
}

// take waits for what the step needs, for quiet, and for a slot. A step that needs another lets the next one go first,
// unless it runs alone: the next one would keep it waiting.
func (s *suite) take(ctx context.Context, r *run, mine, next chan struct{}) {
	defer close(r.ended)
	<-mine
	release := sync.OnceFunc(func() { close(next) })
	defer release()
	if len(r.needs) > 0 && r.kind != alone {
		release()
	}
	for _, need := range r.needs {
		if <-s.runs[need].ended; s.runs[need].err != nil {
			r.err = fmt.Errorf("not run: %s failed", need)
			s.say("%-10s %v", r.name, r.err)
			return
		}
	}
	defer s.hush(r.kind)()
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	release()
	if r.err = context.Cause(ctx); r.err != nil {
		return
	}
	s.execute(ctx, r)
}

// hush waits until a step of that kind may run.
func (s *suite) hush(k kind) (over func()) {
	switch k {
	case alone:
		s.quiet.Lock()
		return s.quiet.Unlock
	case loud:
		s.quiet.RLock()
		return s.quiet.RUnlock
	}
	return func() {}
}

func (s *suite) execute(ctx context.Context, r *run) {
	s.lock.Lock()
	r.began = time.Now()
	s.lock.Unlock()
	s.say("%-10s begins: %s (%s)", r.name, r.what, s.log(r))
	program := []string{s.program, r.name}
	if r.kind == calm {
		program = append([]string{"nice", "-n", "19"}, program...)
	}
	r.err = command(ctx, r.limit, s.log(r), program[0], program[1:]...)
	s.lock.Lock()
	r.took = time.Since(r.began)
	s.lock.Unlock()
	s.say("%-10s %s after %s", r.name, outcome(r), clock(r.took))
}

func outcome(r *run) string {
	if r.err != nil {
		return "FAILED (" + r.err.Error() + ")"
	}
	return "ok"
}

func (s *suite) log(r *run) string { return filepath.Join(s.logs, r.name+".log") }

func (s *suite) tellProgress() {
	s.lock.Lock()
	var running []*run
	for _, r := range s.runs {
		if !r.began.IsZero() && r.took == 0 {
			running = append(running, r)
		}
	}
	s.lock.Unlock()
	slices.SortFunc(running, func(a, b *run) int { return cmp.Compare(a.name, b.name) })
	for _, r := range running {
		s.say("%-10s runs since %s: %s", r.name, clock(time.Since(r.began)), lastLine(s.log(r)))
	}
}

// tellEnd prints why steps failed, then how long each took.
func (s *suite) tellEnd(chosen []step) (ok bool) {
	ok = true
	for _, one := range chosen {
		if r := s.runs[one.name]; r.err != nil && !r.began.IsZero() {
			fmt.Printf("\n=== %s: %v; out of %s:\n%s", r.name, r.err, s.log(r), whatFailed(s.log(r)))
		}
	}
	fmt.Println()
	for _, one := range chosen {
		r := s.runs[one.name]
		ok = ok && r.err == nil
		fmt.Printf("%-10s %6s  %s\n", r.name, clock(r.took), outcome(r))
	}
	fmt.Printf("%-10s %6s\n", "all", clock(time.Since(s.began)))
	return ok
}
