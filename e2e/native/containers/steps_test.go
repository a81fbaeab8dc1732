//go:build e2e

package containers

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// steps is how many steps one case runs, and stepsFor ends it before.
var (
	steps    = flag.Int("steps", 0, "how many steps the case of many steps runs")
	stepsFor = flag.Duration("steps.for", 80*time.Minute, "the case of many steps starts none after this time, and says how many it ran")
)

// stepsCases count what steps leave.
var stepsCases = []testCase{
	{"many steps, a third of them cancelled at any moment, leave nothing", (*world).manySteps},
}

// traces are what steps could leave on a node.
type traces struct {
	mounts int
	// processes are those of a name, dead ones that nobody has waited for among them, and descriptors what they have open
	// together, but for the registry's and this one's.
	processes, descriptors map[string]int
	files                  string
}

// traces counts: mounts in the node's pod and of this machine, processes in these namespaces, the descriptors of all of
// them, and the names in the store, in slurmd's directory and in /tmp.
func (w *world) traces() (t traces, err error) {
	t.processes, t.descriptors = map[string]int{}, map[string]int{}
	for _, pid := range []int{w.node.PID(), os.Getpid()} {
		text, failed := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		t.mounts += strings.Count(string(text), "\n")
		err = errors.Join(err, failed)
	}
	procs, failed := procfs.AllProcs()
	for _, p := range procs {
		name, _ := p.Comm()
		// srun leaves a process of its own to the first one, which is this one
		if status, gone := p.Stat(); gone == nil && (status.State != "Z" || status.PPID != os.Getpid()) {
			t.processes[name]++
		}
		if n, gone := p.FileDescriptorsLen(); gone == nil && p.PID != os.Getpid() && !strings.HasPrefix(name, "registry") {
			t.descriptors[name] += n
		}
	}
	node := fmt.Sprintf("/proc/%d/root", w.node.PID())
	var names []string
	for _, dir := range []string{filepath.Join(w.Root, store), node + "/run/spool", node + "/tmp"} {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			names = append(names, path)
			return err
		}))
	}
	t.files = strings.Join(names, "\n")
	return t, errors.Join(err, failed)
}

// String counts the files.
func (t traces) String() string {
	return fmt.Sprintf("%d mounts, %d files, processes %v, descriptors %v", t.mounts, strings.Count(t.files, "\n")+1, t.processes, t.descriptors)
}

// isLike says whether nothing has been added. Daemons may have closed what they had open before.
func (t traces) isLike(before traces) bool {
	for name, now := range t.descriptors {
		if now > before.descriptors[name] {
			return false
		}
	}
	return t.files == before.files && t.mounts <= before.mounts && maps.Equal(t.processes, before.processes)
}

func (w *world) manySteps() error {
	together, count := 4, 24
	if w.steps > 0 {
		together, count = 8, w.steps
	}
	began := time.Now()
	images := []string{in, "--container-image=/" + squashed, w.of("app:1"), in + " --container-remap-root --container-writable"}
	for _, image := range images {
		if err := w.prints(image, "echo there", "there"); err != nil {
			return err
		}
	}
	err := errors.Join(w.left(), native.Within(native.Limit, "a step is left", func() bool { return !isRunning("slurmstepd") }))
	before, failed := w.traces()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	var all sync.WaitGroup
	numbers, faults := make(chan int), make(chan error, count)
	for range together {
		all.Go(func() {
			for n := range numbers {
				faults <- w.oneOfMany(n, "--partition="+crowded+" "+images[n%len(images)])
			}
		})
	}
	ran := 0
	for ; ran < count && time.Since(began) < w.stepsFor; ran++ {
		numbers <- ran
		if ran%500 == 499 {
			fmt.Printf("  %d steps have begun after %v\n", ran+1, time.Since(began).Round(time.Second))
		}
	}
	close(numbers)
	all.Wait()
	close(faults)
	for fault := range faults {
		err = errors.Join(err, fault)
	}
	if err != nil {
		return err
	}
	var after traces
	err = native.Within(20*time.Second, "steps have left something", func() bool {
		after, err = w.traces()
		return err == nil && after.isLike(before)
	})
	if err != nil {
		return fmt.Errorf("%w: before %v, after %v: %s", err, before, after, after.files)
	}
	fmt.Printf("  %d steps in %v: before %v, after %v\n", ran, time.Since(began).Round(time.Second), before, after)
	return nil
}

// oneOfMany runs a step to its end, or cancels it at any moment.
func (w *world) oneOfMany(n int, image string) error {
	if n%3 != 0 {
		return w.prints(image, fmt.Sprint("echo ", n), fmt.Sprint(n))
	}
	name := fmt.Sprint("many-", n)
	ended, late := make(chan result, 1), time.AfterFunc(lateEnd, func() { fmt.Printf("  the step %d does not end:\n%s", n, processes()) })
	defer late.Stop()
	// without exec, the shell is another process: proctrack/linuxproc signals what it has found, and a sleep that the shell
	// has started just then stays, with the step's output, for its 1,000 seconds
	go func() { ended <- w.srun(image+" --job-name="+name, "exec sleep 1000") }()
	for pause := rand.N(300 * time.Millisecond); ; pause = 50 * time.Millisecond {
		select {
		case r := <-ended:
			// srun may end with 0 where its job ends before the launch is over
			if r.status < 0 || r.status == 0 && !strings.Contains(r.err, "aborted before step completely launched") {
				return fmt.Errorf("want a step that is cancelled, got %+v", r)
			}
			return nil
		case <-time.After(pause):
			_ = errorOf(w.as(nil, "/usr/bin/scancel", "--name="+name)) // there may be none yet
		}
	}
}

// lateEnd is when a cancelled step is looked at that has not ended. srun waits for KillWait and two seconds.
const lateEnd = 6 * time.Second

// processes has a line for each process in these namespaces, with what it waits for in the kernel.
func processes() string {
	var text strings.Builder
	procs, _ := procfs.AllProcs() // without them there is no line
	for _, p := range procs {
		status, gone := p.Stat()
		if gone != nil {
			continue
		}
		words, _ := p.CmdLine()
		waits, _ := p.Wchan()
		stack, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stack", p.PID))
		fmt.Fprintf(&text, "  %d of %d %s %s %q %s %q\n", p.PID, status.PPID, status.State, status.Comm, words, waits, stack)
	}
	return text.String()
}
