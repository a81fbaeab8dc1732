//go:build e2e

package containers

import (
	"archive/tar"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// cost has the figures measured in place of the cases (make bench).
var cost = flag.Bool("cost", false, "measure what containers cost, in place of the cases")

// costCases measure. Each compares what it names in one run, because the machine's load is the same for both.
var costCases = []testCase{
	{"starts", (*world).costOfStarts},
	{"memory", (*world).costOfMemory},
	{"an image of 200 MB from a registry", (*world).costOfPull},
	{"20,000 small files, read by 64 tasks", (*world).costOfReading},
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func (w *world) costOfStarts() error {
	const rounds = 41
	variants := []struct{ name, options string }{
		{"plain", ""},
		{"a directory", in},
		{"a directory, without Slurm in it", in + " --no-container-slurm"},
		{"a .sqsh file", "--container-image=/" + squashed},
		{"a registry's image by its digest", w.of("app@" + w.registry.digest)},
		{"a registry's image by its tag", w.of("app:1")},
	}
	took := make([][]time.Duration, len(variants))
	for round := range rounds + 1 {
		for i, v := range variants {
			args := strings.Fields("--mem=10 --partition=" + crowded + " --nodelist=" + w.node.Name + " " + v.options)
			r := w.as(nil, "/usr/bin/srun", append(args, "/bin/true")...)
			if r.status != 0 {
				return fmt.Errorf("srun %s: status %d: %s", v.options, r.status, r.err)
			}
			if round > 0 { // the first pulls
				took[i] = append(took[i], r.took)
			}
		}
	}
	plain := median(took[0])
	for i, v := range variants {
		m := median(took[i])
		fmt.Printf("  srun /bin/true: %-34s %6.1f ms, %+6.1f ms over a plain step\n", v.name, ms(m), ms(m-plain))
	}
	return w.left()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// costOfMemory adds up what the processes beside the task have for themselves, and their part of what they share.
func (w *world) costOfMemory() error {
	ended, err := w.held("--container-image=/"+squashed, "until [ -e /tmp/go ]; do sleep 0.05; done")
	if err != nil {
		return err
	}
	procs, err := procfs.AllProcs()
	for _, p := range procs {
		name, _ := p.Comm()
		maps, failed := p.ProcSMapsRollup()
		if failed == nil && (strings.HasPrefix(name, "slurmlet-cont") || name == "squashfuse_ll") {
			fmt.Printf("  %-16s %5.1f MB\n", name, float64(maps.Pss)/1e6)
		}
	}
	err = errors.Join(err, w.write("tmp/go", "", 0o644))
	if r := <-ended; r.status != 0 {
		err = errors.Join(err, fmt.Errorf("the held step: %+v", r))
	}
	return errors.Join(err, os.Remove(filepath.Join(w.Root, "tmp/go")), w.left())
}

// bigImage has 200 MB as images of AI have them: most of it in a few libraries, and some in many small files. A third is
// random.
func bigImage(base []v1.Layer) (v1.Image, error) {
	words := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(words[:len(words)/3]) // never fails
	random := rand.New(source)
	big, err := layerOf(func(t *tar.Writer) error {
		for n := range 2016 {
			bytes := 20_000
			if n < 16 {
				bytes = 10_000_000
			}
			text := make([]byte, 0, bytes)
			for len(text) < bytes {
				at := random.IntN(len(words) - 1000)
				text = append(text, words[at:at+1000]...)
			}
			h := &tar.Header{Name: fmt.Sprintf("work/big/%d/%d", n%50, n), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			if _, err := t.Write(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return imageOf("amd64", append(slices.Clone(base), layer(big)), nil, nil)
}

// costOfPull compares an import with what enroot 4.1 runs with its defaults (docker.sh): each layer through gzip and zstd -1
// into its cache, from there by tar onto the disk, and mksquashfs of that, which compresses all but whole blocks. Many
// sites have it compress nothing. enroot
// would use pigz where that is installed, and has an overlay mounted in place of one directory, which is left out here.
func (w *world) costOfPull() error {
	layers, err := w.registry.other.Layers()
	if err != nil {
		return err
	}
	big, err := bigImage(layers[:1])
	if err == nil {
		err = w.registry.tag("team/big:1", big)
	}
	if err != nil {
		return err
	}
	layers, err = big.Layers()
	if err != nil {
		return err
	}
	script := "set -e -o pipefail; mkdir -p /tmp/enroot/root; cd /tmp/enroot; jobs=; "
	for n, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return err
		}
		script += fmt.Sprintf("{ curl -sf http://%s/v2/team/big/blobs/%s | tee >(sha256sum >sum) | gzip -dc | zstd -T1 -q -f -o %d -1; } & "+
			"jobs+=\" $!\"; ", w.registry.outside.Listener.Addr(), digest, n)
	}
	script += "for job in $jobs; do wait $job; done; "
	for n := range layers {
		script += fmt.Sprintf("tar -C root --use-compress-program=zstd -pxf %d; ", n)
	}
	script += "chmod -R u+rwX root; mksquashfs root image.sqsh -all-root -no-progress -processors 2 %s >/dev/null"
	variants := []struct{ name, options string }{
		{"with enroot's defaults", "-comp lzo -noD -exit-on-error"},
		{"without compression", "-noI -noD -noF -noX -no-duplicates"},
	}
	ours, theirs := []time.Duration{}, make([][]time.Duration, len(variants))
	for range 5 {
		r := w.as([]string{"TMPDIR=/tmp"}, "/usr/local/bin/slurmlet-import", "-o", "/tmp/big.sqsh", w.named("big:1"))
		if r.status != 0 {
			return fmt.Errorf("the import: %+v", r)
		}
		ours = append(ours, r.took)
		for i, v := range variants {
			r := w.as(nil, "/bin/bash", "-c", fmt.Sprintf(script, v.options))
			if r.status != 0 {
				return fmt.Errorf("the pipeline: %+v", r)
			}
			theirs[i] = append(theirs[i], r.took)
			err = errors.Join(err, os.RemoveAll(filepath.Join(w.Root, "tmp/enroot")))
		}
		err = errors.Join(err, os.Remove(filepath.Join(w.Root, "tmp/big.sqsh")))
	}
	a := median(ours)
	for i, v := range variants {
		b := median(theirs[i])
		fmt.Printf("  slurmlet-container import %.2f s; curl | gzip | zstd, tar, mksquashfs %s %.2f s: %.1f times as fast\n", a.Seconds(), v.name,
			b.Seconds(), b.Seconds()/a.Seconds())
	}
	return err
}

func (w *world) costOfReading() error {
	tree := filepath.Join(w.Root, image, "work/small")
	for n := range 20_000 {
		dir := filepath.Join(tree, fmt.Sprint(n%20))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), []byte(strings.Repeat("import\n", 100+n%500)), 0o644); err != nil { //nolint:gosec // everybody reads it
			return err
		}
	}
	if out, err := w.Command("/usr/bin/mksquashfs", "/"+image, "/tmp/small.sqsh", "-comp", "lz4", "-no-progress", "-quiet").CombinedOutput(); err != nil {
		return fmt.Errorf("mksquashfs: %w: %s", err, out)
	}
	var took []time.Duration
	for _, options := range []string{in, "--container-image=/tmp/small.sqsh"} {
		r := w.srun(options+" -n64 -O --mem=0", "for d in /work/small/*; do cat $d/* >/dev/null || exit 1; done")
		if r.status != 0 {
			return fmt.Errorf("srun %s: %+v", options, r)
		}
		took = append(took, r.took)
	}
	fmt.Printf("  a directory %.1f s, a .sqsh file %.1f s: %.2f times as long\n", took[0].Seconds(), took[1].Seconds(), took[1].Seconds()/took[0].Seconds())
	return errors.Join(os.RemoveAll(tree), os.Remove(filepath.Join(w.Root, "tmp/small.sqsh")), w.left())
}

// measure plays the figures' cases.
func (w *world) measure(version string) error {
	if err := native.Within(native.Limit, "processes of other cases are left", func() bool { return !isRunning("slurmlet-import") }); err != nil {
		return err
	}
	return w.playAll(version, costCases)
}
