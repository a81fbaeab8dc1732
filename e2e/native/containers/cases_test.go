//go:build e2e

package containers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const in = "--container-image=/" + image

type testCase struct {
	name string
	play func(w *world) error
}

var cases = []testCase{
	{"a directory is a step's root, and all tasks share it", func(w *world) error {
		return errors.Join(
			w.prints(in, "cat /work/here; ls /etc/slurm 2>&1 | grep -c slurm.conf; true", "in the image 0"),
			w.sameNamespace(),
			w.prints("", "ls /etc/slurm/slurm.conf", "/etc/slurm/slurm.conf"),
			w.left(),
		)
	}},
	{"users, and what they are in the container", func(w *world) error {
		return errors.Join(
			w.prints(in, "id -u; id -un; echo $HOME", "1000 alice /home/alice"),
			w.prints(in+" --container-remap-root", "id -u; id -un; echo $HOME", "0 root /root"),
			w.prints(in+" --container-remap-root --container-writable", "touch /work/new && chown 7:7 /work/new && ls /work", "here new"),
			w.prints(in, "ls /work", "here"), // nothing stays of a container without a name
			w.prints(in+" --container-remap-root", "touch /work/new 2>/dev/null || echo read-only", "read-only"),
			w.prints(in, "id -u", "0", "PYXIS_CONTAINER_REMAP_ROOT=1"),
			w.prints(in+" --no-container-remap-root", "id -u", "1000", "PYXIS_CONTAINER_REMAP_ROOT=1"),
		)
	}},
	{"working directories and environments", func(w *world) error {
		return errors.Join(
			w.prints(in, "pwd; echo $ONLY $BOTH $KEPT [$LANG]", "/work image image image []"),
			w.prints(in+" --container-env=KEPT,LANG", "echo $ONLY $BOTH $KEPT [$LANG]", "image image job [C.UTF-8]"),
			w.prints(in+" --container-workdir=/etc", "pwd", "/etc"),
			w.fails(in+" --container-workdir=/missing", "--container-workdir /missing: No such file"),
			w.prints(in+" -n2 -O", "[ $RANK = $SLURM_PROCID ] && echo $((LOCAL_RANK - SLURM_LOCALID))", "0 0"),
			w.prints(in+" --container-entrypoint", "echo $ENTERED", "yes"),
			w.prints(in, "echo [$ENTERED]", "[]"),
		)
	}},
	{"mounts", func(w *world) error {
		if err := w.write("srv/data", "of the node\n", 0o644); err != nil {
			return err
		}
		if err := w.write("tmp/mine", "mine\n", 0o644); err != nil {
			return err
		}
		return errors.Join(
			w.prints(in+" --container-mounts=/srv:/data/deep", "cat /data/deep/data", "of the node"),
			w.prints(in+" --container-mounts=/srv/data:/one,/srv/data:/work/two:ro", "cat /one /work/two", "of the node of the node"),
			w.prints(in+" --container-mounts=/srv/data:/../../link/up", "cat /work/up", "of the node"),
			w.prints(in+" --container-mounts=/home/alice:/home/alice:ro", "touch /home/alice/x 2>/dev/null || echo no", "no"),
			w.prints(in+" --container-mounts=tmpfs:/scratch:size=1m", "touch /scratch/x && ls /scratch", "x"),
			w.prints(in+" --container-mounts=./mine:/mine", "cat /mine", "mine"),
			w.prints(in+" --container-mounts=/missing:/x:nofail", "echo on", "on"),
			w.prints(in+" --container-mounts=umount:/tmp", "ls /tmp", ""),
			w.fails(in+" --container-mounts=/missing:/x", "/missing: no such file"),
			w.prints(in+" --container-mount-home --container-remap-root", "touch /root/of-alice; ls /root", "of-alice"),
			w.prints("", "ls /home/alice/of-alice && rm /home/alice/of-alice", "/home/alice/of-alice"),
			w.left(),
		)
	}},
	{"a mistake fails where it is made", func(w *world) error {
		var err error
		for options, why := range map[string]string{
			"--container-image=nvcr.io/Nvidia/pytorch:24.05-py3": "is no image's name",
			"--container-image=oci:/srv/deep":                    "`slurmlet-container import oci:/srv/deep` makes a .sqsh file",
			in + " --container-mounts=/srv:/data:or":             `"or" is no flag`,
			in + " --container-name=a/b":                         "without a slash",
			in + " --container-unshare=pid":                      "net, ipc or uts",
			in + " --container-writable --container-readonly":    "contradicts",
		} {
			err = errors.Join(err, w.fails(options, why))
			for command, last := range map[string]string{"sbatch": "--wrap=true", "salloc": "true"} {
				if r := w.as(nil, "/usr/bin/"+command, append(strings.Fields(options), last)...); r.status == 0 || !strings.Contains(r.err, why) {
					err = errors.Join(err, fmt.Errorf("%s %s: want %q, got status %d: %s", command, options, why, r.status, r.err))
				}
			}
		}
		return errors.Join(err,
			w.fails(in, "PYXIS_CONTAINER_WRITABLE", "PYXIS_CONTAINER_WRITABLE=maybe"),
			w.fails("--container-image=/missing", "/missing: no such file"),
			w.fails("--container-image=/srv/data", "no squashfs file"),
		)
	}},
	{"sbatch runs its script in the container, and the environment names one", func(w *world) error {
		if err := w.write("tmp/job", "#!/bin/sh\ncat /work/here\npwd\n", 0o755); err != nil {
			return err
		}
		r := w.as([]string{"PYXIS_CONTAINER_IMAGE=/" + image}, "/usr/bin/sbatch", "--mem=10", "--nodelist="+w.node.Name, "--output=/tmp/job.out", "/tmp/job")
		var out []byte
		if err := native.Within(native.Limit, "the script has not run in the container", func() bool {
			out, _ = os.ReadFile(filepath.Join(w.Root, "tmp/job.out"))
			return string(out) == "in the image\n/work\n"
		}); err != nil {
			return fmt.Errorf("%w: %q, status %d: %s", err, out, r.status, r.err)
		}
		return errors.Join(w.prints("", "cat /work/here", "in the image", "PYXIS_CONTAINER_IMAGE=/"+image), w.left())
	}},
	{"a squashfs file, and the end of squashfuse", (*world).squashfs},
	{"nobody has another user's directory of containers", (*world).others},
	{"a name keeps files on the node, and joins what runs", (*world).names},
	{"a cancelled step leaves nothing, whatever it does with signals", (*world).cancel},
	{"a holder that is killed, a task that is killed, and a slurmstepd that is killed leave nothing", (*world).kills},
	{"where the node cannot make containers, the job does not run on its root", (*world).closed},
	{"a start costs little more than that of a plain step", (*world).costs},
}

func (w *world) sameNamespace() error {
	r := w.srun(in+" -n2 -O", "readlink /proc/self/ns/mnt /proc/self/ns/user")
	lines := strings.Fields(r.out)
	slices.Sort(lines)
	if r.status != 0 || len(lines) != 4 || lines[0] != lines[1] || lines[2] != lines[3] {
		return fmt.Errorf("want two tasks in one container, got status %d: %q, %s", r.status, r.out, r.err)
	}
	return nil
}

func (w *world) squashfs() error {
	const in = "--container-image=/" + squashed
	if err := w.write("srv/data", "of the node\n", 0o644); err != nil {
		return err
	}
	for range 5 { // squashfuse may mount before anybody looks, or after
		if err := w.prints(in, "cat /work/here; pwd; echo $ONLY; id -un", "in the image /work image alice"); err != nil {
			return err
		}
	}
	err := errors.Join(
		w.prints(in, "cat /work/here; pwd; echo $ONLY; id -un", "in the image /work image alice"),
		w.prints(in+" --container-remap-root --container-writable", "touch /work/new && chown 7:7 /work/new && rm /work/here && ls /work", "new"),
		w.prints(in+" --container-mounts=/srv:/work/deep/data", "cat /work/deep/data/data", "of the node"),
		w.prints("--container-image=./image.sqsh --chdir=/srv", "cat /work/here", "in the image"),
		w.left(),
	)
	err = errors.Join(err,
		w.write("srv/broken.sqsh", "hsqs"+strings.Repeat("x", 4096), 0o644),
		w.fails("--container-image=/srv/broken.sqsh", "squashfuse says"),
		w.left(),
	)
	ended, failed := w.held(in, "until ! cat /work/here 2>/tmp/why; do sleep 0.05; done; grep -c connected /tmp/why; exit 3")
	if failed != nil {
		return errors.Join(err, failed)
	}
	err = errors.Join(err, w.killAll("squashfuse_ll"))
	if r := <-ended; r.status == 0 {
		err = errors.Join(err, fmt.Errorf("want a step that fails without its image, got %+v", r))
	}
	return errors.Join(err, w.left())
}

// others has a stranger make what is alice's and root's, which a volume that everybody may write to allows until the
// first container of a node.
func (w *world) others() error {
	const stranger = 4321
	volume := filepath.Join(w.Root, store)
	info, err := os.Stat(volume)
	if err == nil && info.Mode().Perm() != 0o755 {
		err = fmt.Errorf("%s has mode %v", store, info.Mode())
	}
	for _, name := range []string{fmt.Sprint(alice), "mnt", "images", fmt.Sprintf("images/%d", alice)} {
		path := filepath.Join(volume, name)
		err = errors.Join(err, os.Rename(path, path+".away"), os.Mkdir(path, 0o777), os.Chown(path, stranger, stranger))
		err = errors.Join(err, w.fails(in, name+": it is no directory, or another user's"))
		err = errors.Join(err, os.Remove(path), os.Symlink("/tmp", path), os.Lchown(path, alice, alice))
		err = errors.Join(err, w.fails(in, name+": it is no directory, or another user's"))
		err = errors.Join(err, os.Remove(path), os.Rename(path+".away", path))
	}
	return errors.Join(err, w.prints(in, "cat /work/here", "in the image"))
}

func (w *world) names() error {
	named := func(mode string) string { return in + " --container-writable --container-name=kept" + mode }
	if err := errors.Join(
		w.fails("--container-name=kept", "there is none on this node"),
		w.fails(named(":exec"), "it does not run"),
		w.prints(named(":create"), "echo 1 >/work/count; cat /work/count", "1"),
		w.fails(named(":create"), "there is one on this node"),
		w.prints("--container-writable --container-name=kept", "cat /work/count; echo $ONLY", "1 image"),
	); err != nil {
		return err
	}
	first := make(chan result)
	go func() {
		first <- w.srun(named("")+" --overlap", "echo >/work/up; until [ -e /work/done ]; do sleep 0.05; done; echo ended")
	}()
	up := filepath.Join(w.Root, store, fmt.Sprint(alice), "kept/upper/work/up")
	err := native.Within(native.Limit, "the container does not run", func() bool { return exists(up) })
	err = errors.Join(err,
		w.fails(named(":no_exec")+" --overlap", "it runs on this node"),
		w.prints("--container-name=kept:exec --container-workdir=/etc --overlap", "pwd; echo >/work/done", "/etc"),
	)
	if r := <-first; r.status != 0 || !strings.Contains(r.out, "ended") {
		err = errors.Join(err, fmt.Errorf("the joined step ended with %d: %s", r.status, r.err))
	}
	list := w.container("list") // the step's holder has ended before srun
	removed := w.container("rm", "kept")
	if !strings.HasPrefix(list.out, "kept") || removed.status != 0 || exists(filepath.Dir(filepath.Dir(filepath.Dir(up)))) {
		err = errors.Join(err, fmt.Errorf("want a list with kept, and its removal, got %+v, %+v", list, removed))
	}
	return errors.Join(err, w.left())
}

// container runs slurmlet-container in the cluster's root, whose files are the node's, too.
func (w *world) container(args ...string) result {
	return w.as(nil, "/usr/local/bin/slurmlet-container", args...)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (w *world) running(script string) (chan result, error) { return w.held(in, script) }

// held starts a step that says when it runs, and returns how it ends.
func (w *world) held(options, script string) (ended chan result, err error) {
	up := filepath.Join(w.Root, "tmp/up")
	_ = os.Remove(up)
	ended = make(chan result, 1)
	go func() { ended <- w.srun(options+" --job-name=held", "echo >/tmp/up; "+script) }()
	return ended, native.Within(native.Limit, "the step does not run", func() bool { return exists(up) })
}

func (w *world) cancel() error {
	var err error
	for _, script := range []string{"exec sleep 300", "trap '' TERM; while :; do sleep 1; done"} {
		ended, failed := w.running(script)
		if failed != nil {
			return failed
		}
		began := time.Now()
		w.as(nil, "/usr/bin/scancel", "--name=held")
		<-ended
		fmt.Printf("  cancelled in %v\n", time.Since(began).Round(time.Millisecond))
		err = errors.Join(err, w.left())
	}
	return err
}

func (w *world) kills() error {
	var err error
	for _, name := range []string{"slurmlet-contai", "sleep", "slurmstepd"} {
		ended, failed := w.running("exec sleep 300")
		if failed != nil {
			return failed
		}
		if failed := w.killAll(name); failed != nil {
			return failed
		}
		w.as(nil, "/usr/bin/scancel", "--name=held")
		<-ended
		if name == "slurmstepd" { // its task is Slurm's to find; slurmlet's holder has ended by itself
			err = errors.Join(err, w.killAll("sleep"))
		}
		if failed := w.left(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s killed: %w", name, failed))
		}
	}
	return err
}

// closed asks a node that may make no namespaces of users, as under a pod's seccomp profile, and then one without the
// program.
func (w *world) closed() error {
	err := w.fails(in+" --nodelist="+w.Nodes[1].Name, "this node may not make user namespaces")
	program := filepath.Join(w.Root, "usr/local/bin/slurmlet-container")
	err = errors.Join(err, os.Rename(program, program+".away"), w.fails(in, "cannot run /usr/local/bin/slurmlet-container"))
	return errors.Join(err, os.Rename(program+".away", program), w.prints(in, "cat /work/here", "in the image"))
}

// costs tells how long starts take in one run: the machine's load is the same for both.
func (w *world) costs() error {
	const runs = 9
	var plain, contained []time.Duration
	for range runs {
		for options, all := range map[string]*[]time.Duration{"": &plain, in: &contained} {
			r := w.as(nil, "/usr/bin/srun", append(strings.Fields("--mem=10 --nodelist="+w.node.Name+" "+options), "/bin/true")...)
			if r.status != 0 {
				return fmt.Errorf("srun %s: status %d: %s", options, r.status, r.err)
			}
			*all = append(*all, r.took)
		}
	}
	slices.Sort(plain)
	slices.Sort(contained)
	ratio := float64(contained[runs/2]) / float64(plain[runs/2])
	fmt.Printf("  srun true: median %v plain, %v in a container: %.2f; the least %v and %v\n",
		plain[runs/2].Round(time.Millisecond), contained[runs/2].Round(time.Millisecond), ratio,
		plain[0].Round(time.Millisecond), contained[0].Round(time.Millisecond))
	return w.left()
}
