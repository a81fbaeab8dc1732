// Command suite runs everything that `make test` is: steps beside each other, most of which wait rather than compute.
// It prints a line when a step begins and ends, and every half minute what runs and the last that was heard of it. All
// that a step prints is in bin/test/NAME.log; of a step that fails, the part that matters is printed in the end.
//
//	go run ./e2e/testbed/suite -make make          # as make test does
//	go run ./e2e/testbed/suite -make make lint unit
package main

import (
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
	// needs are steps that must have ended well, after those that must have ended.
	needs, after []string
	limit        time.Duration
	kind         kind
}

// kind says what a step may run beside.
type kind int

const (
	// loud is for clusters with time to spare, beside each other.
	loud kind = iota
	// alone is for agents that have seconds for what they do: only calm and quiet steps run beside them.
	alone
	// calm is for what computes, beside a step that is alone on the time that it leaves (nice(1)).
	calm
	// urgent is for agents that have seconds for what they do, in tests that mostly wait: loud steps run beside them on
	// the time that they leave.
	urgent
	// quiet is for what waits nearly all the time: it runs beside any.
	quiet
	// steady is for what computes, and may not stand still for seconds: it runs beside any.
	steady
)

// steps are in the order in which they begin, as far as what they need and what runs lets them: what others wait for
// first. On a new machine those are the kernel and what else is compiled.
var steps = []step{
	{"build", "the agent, the controller and the sandbox", nil, nil, 20 * time.Minute, calm},
	{"roots", "Slurm's root file systems", nil, nil, 20 * time.Minute, alone},
	{"registry", "a registry of images", nil, nil, 20 * time.Minute, calm},
	{"native", "real Slurm, both versions, without limits", []string{"build", "roots", "registry"}, nil, 50 * time.Minute, alone},
	{"unit", "tests that need nothing but this machine", nil, []string{"native", "kubernetes", "tools"}, 50 * time.Minute, urgent}, // beside it compilers get a tenth of the time
	{"kernel", "the kernel of the sandbox", nil, nil, 40 * time.Minute, calm},
	{"tools", "helm, its unit tests, buildx and buildkitd", nil, []string{"build", "registry"}, 30 * time.Minute, calm},
	{"node", "the root file system of Kubernetes' nodes", nil, []string{"roots"}, 20 * time.Minute, calm},
	{"kubernetes", "the programs of Kubernetes", []string{"kernel", "node"}, nil, 50 * time.Minute, calm}, // beside the kernel, both and the tests take longer (DECISIONS 278)
	{"workloads", "the controllers of JobSet and LeaderWorkerSet", []string{"kubernetes"}, nil, 20 * time.Minute, calm},
	{"controller", "the controller with real etcd and kube-apiserver", []string{"build", "tools", "kubernetes", "workloads"}, nil, 40 * time.Minute, quiet},
	{"limits", "real Slurm, both versions, with cgroup v2", []string{"build", "roots", "kernel"}, nil, 40 * time.Minute, loud},
	{"kube", "the chart on real Kubernetes", []string{"images", "kubernetes"}, nil, 60 * time.Minute, quiet},
	{"images", "the images", []string{"build", "tools"}, nil, 40 * time.Minute, steady}, // buildkitd gives up a client that says nothing for five seconds
	{"charts", "the charts, the images' definition and the papers", []string{"tools"}, nil, 50 * time.Minute, calm},
	{"lint", "vet and the linters", nil, []string{"roots", "kubernetes"}, 50 * time.Minute, calm},
	{"short", "short forms of bench, scale and steps", []string{"build", "roots"}, nil, 20 * time.Minute, loud},
}

// mostLoud is how many steps with clusters run beside each other. Two cores have no more for their deadlines.
const mostLoud = 3

// report is how often the suite says what runs.
const report = 30 * time.Second

func main() {
	program := flag.String("make", "make", "the `program` that runs a step, with the step's name as its argument")
	beside := flag.Int("beside", 7, "`how many` steps run beside each other")
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
	s := newSuite(*program, *logs, *beside)
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
	beside        int
	out           sync.Mutex

	// lock is of all that follows; changed tells that a step has ended.
	lock    sync.Mutex
	changed *sync.Cond
	order   []*run
}

func newSuite(program, logs string, beside int) *suite {
	s := &suite{program: program, logs: logs, began: time.Now(), beside: beside}
	s.changed = sync.NewCond(&s.lock)
	return s
}

// run is a step that waits, runs, or has ended.
type run struct {
	step
	began time.Time
	took  time.Duration
	cpu   time.Duration
	group int // of processes
	over  bool
	err   error
}

func (r *run) runs() bool { return !r.began.IsZero() && !r.over }

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
		s.order = append(s.order, &run{step: one})
	}
	done := make(chan struct{})
	go func() {
		s.lock.Lock()
		defer s.lock.Unlock()
		for s.begin(ctx) {
			s.changed.Wait()
		}
		close(done)
	}()
	for ticks := time.Tick(report); ; {
		select {
		case <-ticks:
			s.tellProgress()
			continue
		case <-done:
		}
		return s.tellEnd()
	}
}

// begin begins every step that may run now, the first ones first, and says whether any is left.
func (s *suite) begin(ctx context.Context) (left bool) {
	held := false // a step that is to run alone waits for the loud ones
	for _, r := range s.order {
		if r.over || r.runs() {
			left = left || r.runs()
			continue
		}
		failed, ready := s.ready(r)
		switch {
		case failed != "":
			r.err, r.over = fmt.Errorf("not run: %s failed", failed), true
			s.say("%-10s %v", r.name, r.err)
			return s.begin(ctx) // others may need it
		case ctx.Err() != nil:
			r.err, r.over = context.Cause(ctx), true
			continue
		case ready && s.suits(r.kind, held):
			r.began = time.Now()
			go s.execute(ctx, r)
		case ready && r.kind == alone:
			held = true
		}
		left = true
	}
	return left
}

// ready: what the step needs has ended well, or failed is what has not.
func (s *suite) ready(r *run) (failed string, ready bool) {
	ready = true
	for _, other := range s.order {
		switch {
		case slices.Contains(r.after, other.name):
			ready = ready && other.over
		case !slices.Contains(r.needs, other.name):
		case other.over && other.err != nil:
			return other.name, false
		case !other.over:
			ready = false
		}
	}
	return "", ready
}

// suits: a step of this kind may run beside those that run.
func (s *suite) suits(k kind, held bool) bool {
	running, byKind := 0, map[kind]int{}
	for _, r := range s.order {
		if r.runs() {
			running++
			byKind[r.kind]++
		}
	}
	switch {
	case running >= s.beside:
		return false
	case k == loud:
		return !held && byKind[alone] == 0 && byKind[loud]+byKind[urgent] < mostLoud
	case k == alone:
		return byKind[alone]+byKind[loud]+byKind[urgent] == 0
	case k == urgent:
		return byKind[alone] == 0
	}
	return true
}

func (s *suite) execute(ctx context.Context, r *run) {
	s.say("%-10s begins: %s (%s)", r.name, r.what, s.log(r))
	cpu, err := command(ctx, r.limit, s.log(r), r.kind, func(group int) {
		s.lock.Lock()
		defer s.lock.Unlock()
		r.group = group
		s.prioritise()
	}, s.program, r.name)
	s.lock.Lock()
	r.took, r.cpu, r.err, r.over = time.Since(r.began), cpu, err, true
	s.prioritise()
	s.say("%-10s %s after %s", r.name, outcome(r), clock(r.took))
	s.changed.Broadcast()
	s.lock.Unlock()
}

// prioritise gives calm steps what time a step that runs alone leaves, or as much as all others have.
func (s *suite) prioritise() {
	priority, part := 0, usualShare
	if slices.ContainsFunc(s.order, func(r *run) bool { return r.kind == alone && r.runs() }) {
		priority, part = 19, lowestShare
	}
	for _, r := range s.order {
		if r.kind == calm && r.runs() && r.group > 0 {
			for _, group := range groups(r.group) {
				_ = unix.Setpriority(unix.PRIO_PGRP, group, priority) // only root gets the usual one back
				share(group, part)
			}
		}
	}
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
	for _, r := range s.order {
		if r.runs() {
			running = append(running, r)
		}
	}
	s.lock.Unlock()
	for _, r := range running {
		s.say("%-10s runs since %s: %s", r.name, clock(time.Since(r.began)), lastLine(s.log(r)))
	}
}

// tellEnd prints why steps failed, then how long each took.
func (s *suite) tellEnd() (ok bool) {
	for _, r := range s.order {
		if r.err != nil && !r.began.IsZero() {
			fmt.Printf("\n=== %s: %v; out of %s:\n%s", r.name, r.err, s.log(r), whatFailed(s.log(r)))
			for _, line := range repeats(r.name, s.log(r)) {
				fmt.Println("to repeat it: " + line)
			}
		}
	}
	fmt.Println()
	ok = true
	for _, r := range s.order {
		ok = ok && r.err == nil
		fmt.Printf("%-10s %6s  %6s of CPU time  %s\n", r.name, clock(r.took), clock(r.cpu), outcome(r))
	}
	fmt.Printf("%-10s %6s\n", "all", clock(time.Since(s.began)))
	for _, r := range s.order {
		if r.err != nil && !r.began.IsZero() {
			for _, line := range inShort(s.log(r)) {
				fmt.Println(r.name + ": " + line)
			}
		}
	}
	return ok
}
