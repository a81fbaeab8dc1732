//go:build e2e

package containers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// sharedDir is on a file system that the nodes share.
const sharedDir = "srv/shared"

// sharedCases have one directory of images for all nodes.
var sharedCases = []testCase{
	{"an image is in the directory that nodes share, and people see it there", (*world).pullShared},
	{"64 nodes of a step cost the registry one image, and one question where they have it", (*world).pullCrowd},
}

// shareImages edits plugstack.conf, and waits for a step that follows it.
func (w *world) shareImages() error {
	dir := filepath.Join(w.Root, sharedDir)
	err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777|os.ModeSticky),
		w.write("etc/slurm/plugstack.conf", "required /"+plugins+"/spank_slurmlet.so image_cache="+imageCache+" image_dir=/"+sharedDir+"/%u\n", 0o644))
	if err != nil {
		return err
	}
	if out, err := w.Command("/usr/bin/scontrol", "reconfigure").CombinedOutput(); err != nil {
		return fmt.Errorf("scontrol reconfigure: %w: %s", err, out)
	}
	var r result
	err = native.Within(native.Limit, "no step has its image in the shared directory", func() bool {
		r = w.srun(w.of("app:1"), "cat /work/here")
		_, failed := os.Stat(filepath.Join(dir, "alice/refs"))
		return failed == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %+v", err, r)
	}
	return nil
}

func (w *world) pullShared() error {
	if err := w.shareImages(); err != nil {
		return err
	}
	err := errors.Join(
		w.asks(0, 1, func() error { return w.prints(w.of("app:1"), "cat /work/here", "in the image") }),
		w.prints(w.of("app:1")+" -n2 -O", "cat /work/here", "in the image in the image"),
		w.left())
	list, removed := w.container("list"), w.container("rm", w.named("app:1"))
	if !strings.Contains(list.out, w.registry.digest) || removed.status != 0 {
		err = errors.Join(err, fmt.Errorf("want a list with the image, and its end, got %+v, %+v", list, removed))
	}
	return err
}

// crowd asks for an image as so many nodes of one step do, all at once, and returns what is wrong with the answers.
func (w *world) crowd(step string, nodes int) (err error) {
	var all sync.WaitGroup
	answers := make([]result, nodes)
	began := time.Now()
	for i := range answers {
		all.Go(func() {
			answers[i] = w.as(nil, "/usr/local/bin/slurmlet-import", "--cache=/"+sharedDir+"/alice", fmt.Sprintf("--node=n%d", i),
				"--step="+step, w.named("app:1"))
		})
	}
	all.Wait()
	fmt.Printf("  %d nodes had it after %v\n", nodes, time.Since(began).Round(time.Millisecond))
	for i, r := range answers {
		if r.status != 0 || r.out != w.registry.digest+"\n" {
			err = errors.Join(err, fmt.Errorf("node %d: want %s, got %+v", i, w.registry.digest, r))
		}
	}
	return err
}

func (w *world) pullCrowd() error {
	const nodes = 64
	err := errors.Join(
		// three layers and a configuration; HEAD of the tag, and GET of its manifest
		w.asks(4, 2, func() error { return w.crowd("c.7.0", nodes) }),
		w.asks(0, 1, func() error { return w.crowd("c.7.1", nodes) }))
	w.registry.set(func(f *faults) { f.gone = true })
	err = errors.Join(err, w.crowd("c.7.2", nodes)) // one waits for the registry, for all
	w.registry.set(func(f *faults) { *f = faults{} })
	return err
}
