//go:build e2e

package containers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// pullCases have steps whose image is in a registry. The limit of the cache is less than two of these images.
var pullCases = []testCase{
	{"a step pulls its image, and the next one asks for its digest alone", (*world).pullOnce},
	{"sbatch, salloc and a container with a name take a registry's image", (*world).pullElsewhere},
	{"a tag that has moved is seen", (*world).pullMoved},
	{"twenty steps at once pull each layer once", (*world).pullTogether},
	{"a registry that is away, with the image on the node and without", (*world).pullAway},
	{"what is not as its digest says, or has no such platform, is not kept", func(w *world) error {
		w.registry.set(func(f *faults) { f.broken = true })
		err := errors.Join(w.forget(), w.fails(w.of("app:1"), "sha256"), w.cached(0))
		w.registry.set(func(f *faults) { *f = faults{} })
		return errors.Join(err,
			w.fails(w.of("arm:1"), "has no image for linux/amd64, but for linux/arm64\n"),
			w.fails(w.of("none:1"), "there is no image"),
			w.cached(0), w.left())
	}},
	{"a pull that is cancelled, and one that is killed", (*world).pullEnds},
	{"a full disk is an error with numbers, and keeps nothing", (*world).pullFull},
	{"an image is its user's alone", (*world).pullOthers},
	{"the image that is longest unused makes room, and one in use does not", (*world).pullLimit},
}

// of are the options of a step with an image of the registry.
func (w *world) of(image string) string { return "--container-image=" + w.named(image) }

func (w *world) named(image string) string {
	return w.registry.outside.Listener.Addr().String() + "/team/" + image
}

func (w *world) cacheDir() string { return filepath.Join(w.Root, store, "images", fmt.Sprint(alice)) }

// cached is an error unless alice's cache has so many images, and nothing that is not whole.
func (w *world) cached(want int) error {
	entries, err := os.ReadDir(w.cacheDir())
	images := 0
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), ".sqsh"):
			images++
		case e.Name() != "refs":
			err = errors.Join(err, fmt.Errorf("a pull has left %s", e.Name()))
		}
	}
	if images != want {
		err = errors.Join(err, fmt.Errorf("want %d images, got %v", want, entries))
	}
	return err
}

// forget removes alice's images, as she would.
func (w *world) forget() error {
	images, err := filepath.Glob(filepath.Join(w.cacheDir(), "*.sqsh"))
	for _, path := range images {
		digest := strings.Replace(strings.TrimSuffix(filepath.Base(path), ".sqsh"), "-", ":", 1)
		if r := w.container("rm", digest); r.status != 0 {
			err = errors.Join(err, fmt.Errorf("rm %s: %s", digest, r.err))
		}
	}
	return errors.Join(err, w.cached(0))
}

// asks is an error unless what it plays asks for so many blobs, and for a manifest as often.
func (w *world) asks(blobs, manifests int, play func() error) error {
	beforeBlobs, beforeManifests := w.registry.asked()
	err := play()
	nowBlobs, nowManifests := w.registry.asked()
	if got := nowBlobs - beforeBlobs; got != blobs {
		err = errors.Join(err, fmt.Errorf("want %d requests for blobs, got %d", blobs, got))
	}
	if got := nowManifests - beforeManifests; got != manifests {
		err = errors.Join(err, fmt.Errorf("want %d requests for manifests, got %d", manifests, got))
	}
	return err
}

func (w *world) pullOnce() error {
	const script, want = "cat /work/here; pwd; echo $ONLY; id -un", "in the image /work of-the-image alice"
	var first, second result
	// three layers and a configuration; HEAD of the tag, and GET of its manifest
	err := w.asks(4, 2, func() error {
		first = w.srun(w.of("app:1"), script)
		return nil
	})
	if got := strings.Join(strings.Fields(first.out), " "); first.status != 0 || got != want {
		return errors.Join(err, fmt.Errorf("want %q, got %+v", want, first))
	}
	for _, line := range []string{"pulls ", "3 layers, ", "has " + w.named("app:1") + " after "} {
		if !strings.Contains(first.err, "slurmlet: "+w.node.Name+": ") || !strings.Contains(first.err, line) {
			err = errors.Join(err, fmt.Errorf("want %q of the pull, got %s", line, first.err))
		}
	}
	err = errors.Join(err, w.asks(0, 1, func() error {
		second = w.srun("--container-image=docker://"+strings.Replace(w.named("app:1"), "/", "#", 1), script)
		if got := strings.Join(strings.Fields(second.out), " "); got != want || strings.Contains(second.err, "slurmlet:") {
			return fmt.Errorf("want %q and no message, got %+v", want, second)
		}
		return nil
	}))
	fmt.Printf("  srun took %v with the pull, and %v without\n", first.took.Round(time.Millisecond), second.took.Round(time.Millisecond))
	err = errors.Join(err,
		w.asks(0, 0, func() error { return w.prints(w.of("app@"+w.registry.digest), script, want) }),
		// an index of which the node has its platform's image already: HEAD, and GET of both manifests, once
		w.asks(0, 3, func() error { return w.prints(w.of("both:1"), script, want) }),
		w.asks(0, 1, func() error { return w.prints(w.of("both:1"), script, want) }),
		w.prints(w.of("app:1")+" -n2 -O", "cat /work/here", "in the image in the image"),
		w.cached(1), w.left())
	list := w.container("list")
	if !strings.Contains(list.out, w.registry.digest) || !strings.Contains(list.out, "used 20") || !strings.Contains(list.out, "/team/app:1") {
		err = errors.Join(err, fmt.Errorf("want a list with the image, got %+v", list))
	}
	ended, failed := w.held(w.of("app:1"), "until [ -e /tmp/go ]; do sleep 0.05; done; cat /work/here")
	if failed != nil {
		return errors.Join(err, failed)
	}
	if r := w.container("rm", w.named("app:1")); r.status == 0 || !strings.Contains(r.err, "runs from it") {
		err = errors.Join(err, fmt.Errorf("want an image in use that stays, got %+v", r))
	}
	err = errors.Join(err, w.write("tmp/go", "", 0o644))
	if r := <-ended; r.status != 0 {
		err = errors.Join(err, fmt.Errorf("the held step: %+v", r))
	}
	err = errors.Join(err, w.left(), os.Remove(filepath.Join(w.Root, "tmp/go")))
	if r := w.container("rm", w.named("app:1")); r.status != 0 {
		err = errors.Join(err, fmt.Errorf("rm: %+v", r))
	}
	return errors.Join(err, w.cached(0), w.fails(w.of("app:1"), "plain HTTP shows passwords", "ENROOT_ALLOW_HTTP="), w.cached(0))
}

func (w *world) pullElsewhere() error {
	if err := w.write("tmp/job", "#!/bin/sh\ncat /work/here\n", 0o755); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(w.Root, "tmp/job.out"))
	r := w.as(nil, "/usr/bin/sbatch", "--mem=10", "--nodelist="+w.node.Name, "--output=/tmp/job.out", w.of("app:1"), "/tmp/job")
	var out []byte
	err := native.Within(native.Limit, "the script has not run in the container", func() bool {
		out, _ = os.ReadFile(filepath.Join(w.Root, "tmp/job.out"))
		return strings.HasSuffix(string(out), "in the image\n")
	})
	if err != nil {
		return fmt.Errorf("%w: %q, status %d: %s", err, out, r.status, r.err)
	}
	r = w.as(nil, "/usr/bin/salloc", "--mem=10", "--nodelist="+w.node.Name, w.of("app:1"), "/usr/bin/srun", w.of("app:1"), "/bin/cat", "/work/here")
	if r.status != 0 || r.out != "in the image\n" || !strings.Contains(r.err, "salloc checks these options alone") {
		err = errors.Join(err, fmt.Errorf("salloc: %+v", r))
	}
	named := w.of("app:1") + " --container-writable --container-name=pulled"
	err = errors.Join(err,
		w.prints("", "cat /work/here", "in the image", "PYXIS_CONTAINER_IMAGE="+w.named("app:1")),
		w.prints(named+":create", "echo 1 >/work/count", ""),
		w.prints("--container-writable --container-name=pulled", "cat /work/count /work/here", "1 in the image"),
		w.left(), w.forget(),
		// its layer is on the node, and its image comes again, by its digest
		w.prints(named, "cat /work/count /work/here", "1 in the image"),
		w.cached(1), w.left())
	list, removed := w.container("list"), w.container("rm", "pulled")
	if !strings.Contains(list.out, "/team/app@"+w.registry.digest) || removed.status != 0 {
		err = errors.Join(err, fmt.Errorf("want a list with the image of the name, and its end, got %+v, %+v", list, removed))
	}
	return err
}

func (w *world) pullMoved() error {
	const script = "cat /work/59 2>/dev/null || echo old"
	move := func(image v1.Image) error { return w.registry.tag("team/moving:1", image) }
	return errors.Join(
		move(w.registry.app), w.prints(w.of("moving:1"), script, "old"),
		move(w.registry.deep), w.prints(w.of("moving:1"), script, "59"),
		move(w.registry.app), w.prints(w.of("moving:1"), script, "old"),
		w.left())
}

func (w *world) pullTogether() error {
	if err := w.forget(); err != nil {
		return err
	}
	script := "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do " +
		"srun --overlap --mem=0 -n1 " + w.of("app:1") + " cat /work/here & done; wait"
	before, _ := w.registry.asked()
	r := w.as(nil, "/usr/bin/salloc", "--mem=10", "--nodelist="+w.node.Name, "/bin/sh", "-c", script)
	var err error
	if got := strings.Count(r.out, "in the image\n"); got != 20 {
		err = fmt.Errorf("%d of 20 steps ran: %+v", got, r)
	}
	if pulls := strings.Count(r.err, ": pulls "); pulls != 1 {
		err = errors.Join(err, fmt.Errorf("want one pull, got %d: %s", pulls, r.err))
	}
	blobs := w.registry.blobsSince(before)
	slices.Sort(blobs)
	if len(blobs) != 4 || len(slices.Compact(slices.Clone(blobs))) != 4 {
		err = errors.Join(err, fmt.Errorf("want three layers and a configuration, each asked for once, got %v", blobs))
	}
	return errors.Join(err, w.cached(1), w.left())
}

func (w *world) pullAway() error {
	if err := w.prints(w.of("app:1"), "cat /work/here", "in the image"); err != nil {
		return err
	}
	w.registry.set(func(f *faults) { f.gone = true })
	r := w.srun(w.of("app:1"), "cat /work/here")
	var err error
	if r.out != "in the image\n" || !strings.Contains(r.err, "gives no answer") || !strings.Contains(r.err, w.registry.digest) {
		err = fmt.Errorf("want the image of the node, and that it says so, got %+v", r)
	}
	fmt.Printf("  srun took %v without the registry\n", r.took.Round(time.Millisecond))
	err = errors.Join(err, w.fails(w.of("deep:1"), "cannot get "+w.named("deep:1")), w.cached(1))
	// who may have it no more gets it no more
	w.registry.set(func(f *faults) { *f = faults{users: true} })
	err = errors.Join(err, w.fails(w.of("app:1"), "came as a stranger"))
	w.registry.set(func(f *faults) { *f = faults{} })
	return errors.Join(err, w.left())
}

func (w *world) pullEnds() error {
	w.registry.set(func(f *faults) { f.still = true })
	defer w.registry.set(func(f *faults) { *f = faults{} })
	err := w.forget()
	for _, c := range []struct {
		end func() error
		say string
	}{
		{func() error { return errorOf(w.as(nil, "/usr/bin/scancel", "--name=pulling")) }, "the pull is cancelled"},
		{func() error { return w.killAll("slurmlet-import") }, "slurmlet-import: signal: killed"},
	} {
		ended := make(chan result, 1)
		w.registry.holdsAgain()
		go func() { ended <- w.srun(w.of("app:1")+" --job-name=pulling", "echo it ran") }()
		if failed := native.Within(native.Limit, "the pull has asked for no layer", w.registry.holds); failed != nil {
			return errors.Join(err, failed)
		}
		began := time.Now()
		err = errors.Join(err, c.end())
		r := <-ended
		fmt.Printf("  ended in %v\n", time.Since(began).Round(time.Millisecond))
		// slurmd's SIGKILL, after KillWait, would leave it no time for a message
		if r.status == 0 || r.out != "" || !strings.Contains(r.err, c.say) {
			err = errors.Join(err, fmt.Errorf("want a step that ends with %q, got %+v", c.say, r))
		}
		err = errors.Join(err, w.left(), native.Within(native.Limit, "slurmlet-import is left", func() bool {
			return !isRunning("slurmlet-import") && !isRunning("sqfstar")
		}))
	}
	left, failed := filepath.Glob(filepath.Join(w.cacheDir(), "*.pull"))
	if len(left) != 1 {
		err = errors.Join(err, failed, fmt.Errorf("want what the pull has left that was killed, got %v", left))
	}
	w.registry.set(func(f *faults) { *f = faults{} })
	return errors.Join(err, w.prints(w.of("deep:1"), "cat /work/59", "59"), w.cached(1))
}

func errorOf(r result) error {
	if r.status != 0 {
		return fmt.Errorf("status %d: %s", r.status, r.err)
	}
	return nil
}

func isRunning(name string) bool {
	procs, err := procfs.AllProcs()
	return err != nil || slices.ContainsFunc(procs, func(p procfs.Proc) bool {
		comm, err := p.Comm()
		return err == nil && comm == name
	})
}

// pullFull pulls as a step's slurmlet-container does, into a cache on a file system of its own.
func (w *world) pullFull() error {
	small := filepath.Join(w.Root, "srv/full")
	options := fmt.Sprintf("size=64k,mode=700,uid=%d,gid=%d", alice, alice)
	if err := errors.Join(os.MkdirAll(small, 0o755), unix.Mount("tmpfs", small, "tmpfs", 0, options)); err != nil {
		return err
	}
	var err error
	r := w.as(nil, "/usr/local/bin/slurmlet-import", "--cache=/srv/full", "--node=n1", w.named("app:1"))
	if r.status == 0 || r.out != "" || !strings.Contains(r.err, "/srv/full/sha256-") || !strings.HasSuffix(r.err, " free\n") {
		err = fmt.Errorf("want what the image needs and the disk has, got %+v", r)
	}
	left, failed := os.ReadDir(small)
	if len(left) > 0 {
		failed = errors.Join(failed, fmt.Errorf("a pull has left %v", left))
	}
	return errors.Join(err, failed, unix.Unmount(small, unix.MNT_DETACH))
}

// pullOthers has a stranger try alice's image and her directory.
func (w *world) pullOthers() error {
	const stranger = 4321
	if err := w.prints(w.of("app:1"), "cat /work/here", "in the image"); err != nil {
		return err
	}
	file, err := filepath.Glob(filepath.Join(w.cacheDir(), "*.sqsh"))
	if err != nil || len(file) == 0 {
		return errors.Join(err, errors.New("there is no image"))
	}
	path := strings.TrimPrefix(file[0], w.Root)
	for _, command := range [][]string{{"/bin/cat", path}, {"/bin/ls", filepath.Dir(path)}, {"/usr/bin/touch", filepath.Dir(filepath.Dir(path)) + "/4321"}} {
		cmd := w.Command(command[0], command[1:]...)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: stranger, Gid: stranger}
		if out, failed := cmd.CombinedOutput(); failed == nil || !strings.Contains(string(out), "Permission denied") {
			err = errors.Join(err, fmt.Errorf("%v: want a refusal, got %s", command, out))
		}
	}
	// a directory that others may enter is none for images
	err = errors.Join(err, os.Chmod(w.cacheDir(), 0o755), w.fails(w.of("app:1"), "with mode 0700"))
	return errors.Join(err, os.Chmod(w.cacheDir(), 0o700), w.prints(w.of("app:1"), "cat /work/here", "in the image"))
}

func (w *world) pullLimit() error {
	err := w.forget()
	ended, failed := w.held(w.of("app:1"), "until [ -e /tmp/go ]; do sleep 0.05; done; cat /work/here")
	if failed != nil {
		return errors.Join(err, failed)
	}
	err = errors.Join(err,
		w.prints(w.of("deep:1"), "cat /work/59", "59"), w.cached(2),
		w.registry.tag("team/other:1", w.registry.other), w.prints(w.of("other:1"), "cat /work/0", "0"), w.cached(2), // deep has gone
		w.write("tmp/go", "", 0o644))
	if r := <-ended; r.status != 0 || r.out != "in the image\n" {
		err = errors.Join(err, fmt.Errorf("the step of the image in use: %+v", r))
	}
	return errors.Join(err, os.Remove(filepath.Join(w.Root, "tmp/go")), w.left(),
		w.prints(w.of("deep:1"), "cat /work/59", "59"), w.cached(1))
}
