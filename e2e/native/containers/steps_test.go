//go:build e2e

package containers

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// steps is how many steps one case runs.
var steps = flag.Int("steps", 0, "how many steps the case of many steps runs")

// stepsCases count what steps leave.
var stepsCases = []testCase{
	{"many steps, a third of them cancelled at any moment, leave nothing", (*world).manySteps},
}

// traces are what steps could leave on a node.
type traces struct {
	mounts int
	// descriptors are those that the processes of a name have open together, but for the registry's and this one's.
	descriptors map[string]int
	files       string
}

// traces counts: mounts in the node's pod and of this machine, processes in these namespaces, the descriptors of all of
// them, and the names in the store.
func (w *world) traces() (t traces, err error) {
	t.descriptors = map[string]int{}
	for _, pid := range []int{w.node.PID(), os.Getpid()} {
		text, failed := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		t.mounts += strings.Count(string(text), "\n")
		err = errors.Join(err, failed)
	}
	procs, failed := procfs.AllProcs()
	for _, p := range procs {
		name, _ := p.Comm()
		if n, gone := p.FileDescriptorsLen(); gone == nil && p.PID != os.Getpid() && !strings.HasPrefix(name, "registry") {
			t.descriptors[name] += n
		}
	}
	var names []string
	walked := filepath.WalkDir(filepath.Join(w.Root, store), func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	t.files = strings.Join(names, "\n")
	return t, errors.Join(err, failed, walked)
}

// String counts the files.
func (t traces) String() string {
	return fmt.Sprintf("%d mounts, %d files, descriptors %v", t.mounts, strings.Count(t.files, "\n")+1, t.descriptors)
}

// isLike says whether nothing has been added. Daemons may have closed what they had open before.
func (t traces) isLike(before traces) bool {
	for name, now := range t.descriptors {
		if now > before.descriptors[name] {
			return false
		}
	}
	return t.files == before.files && t.mounts <= before.mounts
}

func (w *world) manySteps() error {
	const together = 4
	count := cmp.Or(w.steps, 24)
	began := time.Now()
	images := []string{in, "--container-image=/" + squashed, w.of("app:1"), in + " --container-remap-root --container-writable"}
	for _, image := range images {
		if err := w.prints(image, "echo there", "there"); err != nil {
			return err
		}
	}
	err := w.left()
	before, failed := w.traces()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	var all sync.WaitGroup
	numbers, faults := make(chan int), make(chan error, count)
	for range together {
		all.Go(func() {
			for n := range numbers {
				faults <- w.oneOfMany(n, images[n%len(images)])
			}
		})
	}
	for n := range count {
		numbers <- n
	}
	close(numbers)
	all.Wait()
	for range count {
		err = errors.Join(err, <-faults)
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
	fmt.Printf("  %d steps in %v: before %v, after %v\n", count, time.Since(began).Round(time.Second), before, after)
	return nil
}

// oneOfMany runs a step to its end, or cancels it at any moment.
func (w *world) oneOfMany(n int, image string) error {
	if n%3 != 0 {
		return w.prints(image, fmt.Sprint("echo ", n), fmt.Sprint(n))
	}
	name := fmt.Sprint("many-", n)
	ended := make(chan result, 1)
	go func() { ended <- w.srun(image+" --job-name="+name, "sleep 1000") }()
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
