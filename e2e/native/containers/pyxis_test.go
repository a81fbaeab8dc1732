//go:build e2e

package containers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// pyxisCounts is how many cases each file of pyxis' own tests has (https://github.com/NVIDIA/pyxis, tests, 0.24.0).
var pyxisCounts = map[string]int{
	"concurrency": 2, "docker_image": 22, "entrypoint": 4, "env": 9, "env_vars": 29, "exec": 7, "invalid_args": 16, "mount_home": 4,
	"mounts": 20, "mpi": 5, "mpi4py": 6, "name": 5, "path": 2, "pytorch": 2, "remap_root": 8, "sbatch": 2, "squashfs_image": 12, "ssh": 2,
	"unshare": 4, "unshare_ipc": 7, "unshare_net": 7, "unshare_uts": 6, "workdir": 4, "writable": 2,
}

// pyxisCase is what slurmlet does in one case of pyxis' tests, or in several that differ in the image alone. Where this
// is something else than pyxis does, docs/install/job-containers.md says why, below "From pyxis and enroot".
type pyxisCase struct {
	file        string
	first, last int
	what        string
	play        func(w *world) error
}

// TestPyxisCasesAreAllThere: each case of pyxis' has one row.
func TestPyxisCasesAreAllThere(t *testing.T) {
	next := map[string]int{}
	for _, c := range pyxisCases {
		assert.Equal(t, next[c.file]+1, c.first, "%s: %s", c.file, c.what)
		next[c.file] = c.last
	}
	assert.Equal(t, pyxisCounts, next)
}

// asPyxis are the rows as cases of this package.
func asPyxis() (all []testCase) {
	for _, c := range pyxisCases {
		all = append(all, testCase{fmt.Sprintf("pyxis' %s %d: %s", c.file, c.first, c.what), c.play})
	}
	return all
}

// row makes a play of a step that prints just these words.
func row(options, script, want string, environ ...string) func(*world) error {
	return func(w *world) error { return w.prints(options, script, want, environ...) }
}

// wrong makes a play of a step that fails, and says why.
func wrong(options, why string) func(*world) error {
	return func(w *world) error { return w.fails(options, why) }
}

// fresh makes a play that begins and ends without a container of this name.
func fresh(name string, play func(*world) error) func(*world) error {
	return func(w *world) error {
		w.container("rm", name) // it may not be there
		err := play(w)
		if r := w.container("rm", name); r.status != 0 {
			err = errors.Join(err, fmt.Errorf("rm %s: %s", name, r.err))
		}
		return errors.Join(err, w.left())
	}
}

// beside makes a play that runs while a step holds a container.
func beside(options, script string, play func(*world) error) func(*world) error {
	return func(w *world) error {
		ended, err := w.held(options+" --overlap", script+"until [ -e /tmp/go ]; do sleep 0.05; done")
		if err != nil {
			return err
		}
		err = errors.Join(play(w), w.write("tmp/go", "", 0o644))
		if r := <-ended; r.status != 0 {
			err = errors.Join(err, fmt.Errorf("the step beside: %+v", r))
		}
		return errors.Join(err, os.Remove(filepath.Join(w.Root, "tmp/go")))
	}
}

// step runs a step whose options may have spaces.
func (w *world) step(script string, options ...string) result {
	args := append([]string{"--mem=10", "--nodelist=" + w.node.Name, in}, options...)
	return w.as(nil, "/usr/bin/srun", append(args, "/bin/sh", "-c", script)...)
}

func spaced(mount, script, want string) func(*world) error {
	return func(w *world) error {
		dir := filepath.Join(w.Root, "tmp/a test dir")
		err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("hello\n"), 0o644))
		r := w.step(script, "--container-mounts="+mount)
		if r.status != 0 || strings.TrimSpace(r.out) != want {
			err = errors.Join(err, fmt.Errorf("%s: want %q, got %+v", mount, want, r))
		}
		return err
	}
}

// mounted prints how many mounts there are at a path.
func mounted(path string) string { return "grep -c ' " + path + " ' /proc/self/mountinfo || true" }

const (
	named    = in + " --container-writable --container-name="
	writable = in + " --container-writable"
	// idMap prints the user's number in the container, and outside
	idMap = "set -- $(cat /proc/self/uid_map); echo $*"
)

var pyxisCases = []pyxisCase{
	{"concurrency", 1, 1, "five containers are created at once", func(w *world) error { return w.atOnce(5, ":create") }},
	{"concurrency", 2, 2, "fifty steps share five containers; they join what runs", func(w *world) error { return w.atOnce(50, "") }},

	{"docker_image", 1, 8, "Ubuntu's releases, old and new; root without a right can install there", func(w *world) error {
		return errors.Join(
			w.prints(w.of("app:1"), "cat /work/here", "in the image"),
			w.prints(w.of("app:1")+" --container-remap-root --container-writable", "touch /usr/new && chown 7:7 /usr/new && echo done", "done"))
	}},
	{"docker_image", 9, 9, "a registry by / and by #", func(w *world) error {
		return errors.Join(w.prints(w.of("app:1"), "cat /work/here", "in the image"),
			w.prints("--container-image="+strings.Replace(w.named("app:1"), "/", "#", 1), "cat /work/here", "in the image"))
	}},
	{"docker_image", 10, 13, "CentOS' releases: any C library does, or none", (*world).static},
	{"docker_image", 14, 18, "images of other registries", func(w *world) error { return w.prints(w.of("deep:1"), "cat /work/59", "59") }},
	{"docker_image", 19, 19, "an image that is not there is asked for once", func(w *world) error {
		r := w.srun(w.of("none:1")+" -n2 -O", "true")
		if r.status == 0 || strings.Count(r.err, "there is no image") != 1 {
			return fmt.Errorf("want one error, got %+v", r)
		}
		return nil
	}},
	{"docker_image", 20, 20, "docker:// before the name", func(w *world) error {
		return w.prints("--container-image=docker://"+w.named("app:1"), "cat /work/here", "in the image")
	}},
	{"docker_image", 21, 21, "dockerd:// is refused: slurmlet asks no daemon", wrong("--container-image=dockerd://x", "slurmlet asks no daemon")},
	{"docker_image", 22, 22, "an image of a digest, and layers in zstd", func(w *world) error {
		return errors.Join(w.prints(w.of("deep:1"), "cat /work/59", "59"), w.prints(w.of("app@"+w.registry.digest), "cat /work/here", "in the image"))
	}},

	{"entrypoint", 1, 1, "the entrypoint's variables, with and without it", func(w *world) error {
		return errors.Join(w.prints(in+" --container-entrypoint", "echo $ENTERED", "yes"), w.prints(in+" --no-container-entrypoint", "echo [$ENTERED]", "[]"))
	}},
	{"entrypoint", 2, 2, "an entrypoint that is called by hand changes the container", fresh("byhand", func(w *world) error {
		return errors.Join(
			w.prints(named+"byhand --container-remap-root", "true", ""),
			w.prints("--container-writable --container-name=byhand --container-remap-root", "/bin/sh /etc/rc touch made 2>/dev/null", ""),
			w.prints("--container-name=byhand", "ls /work", "here made"))
	})},
	{"entrypoint", 3, 3, "the entrypoint sees a variable of the job's where --container-env names it", func(w *world) error {
		return errors.Join(
			w.prints(in+" --container-entrypoint", "echo $SAW", "none"),
			w.prints(in+" --container-entrypoint", "echo $SAW $ASKED", "none job", "ASKED=job"),
			w.prints(in+" --container-entrypoint --container-env=ASKED", "echo $SAW $ASKED", "job job", "ASKED=job"))
	}},
	{"entrypoint", 4, 4, "what the entrypoint prints is shown where it is asked for", func(w *world) error {
		return errors.Join(w.logs(in+" --container-entrypoint", false), w.logs(in+" --container-entrypoint --container-entrypoint-log", true))
	}},

	{"env", 1, 1, "a variable of the job's", row(in, "echo $FOO", "bar", "FOO=bar")},
	{"env", 2, 2, "TERM is the job's", row(in, "echo $TERM", "dumb", "TERM=dumb")},
	{"env", 3, 3, "HOME says which directory is mounted as the home", row(in+" --container-mount-home --container-remap-root",
		"touch /root/by-home; ls /tmp/by-home; rm /tmp/by-home", "/tmp/by-home", "HOME=/tmp")},
	{"env", 4, 4, "LANG is not the job's", row(in, "echo [$LANG]", "[]", "LANG=en_US.UTF-8")},
	{"env", 5, 7, "NVIDIA_… names no devices: a container has the pod's", row(in, "ls /dev > /dev/null && echo $NVIDIA_VISIBLE_DEVICES", "0",
		"NVIDIA_VISIBLE_DEVICES=0")},
	{"env", 8, 8, "--container-env has the job's variable win, where the job has it", func(w *world) error {
		return errors.Join(
			w.prints(in+" --container-env=ONLY", "echo $ONLY", "image"),
			w.prints(in, "echo $ONLY $BOTH", "image image", "ONLY=job"),
			w.prints(in+" --container-env ONLY", "echo $ONLY $BOTH", "job image", "ONLY=job"),
			w.prints(in+" --container-env ONLY,BOTH", "echo $ONLY $BOTH", "job job", "ONLY=job"),
			w.prints(in+" --container-env BOTH,ONLY", "echo $ONLY $BOTH", "job job", "ONLY=job"))
	}},
	{"env", 9, 9, "--container-env has LANG be the job's", row(in+" --container-env LANG", "echo $LANG", "en_US.UTF-8", "LANG=en_US.UTF-8")},

	{"env_vars", 1, 1, "PYXIS_CONTAINER_IMAGE", row("", "cat /work/here", "in the image", "PYXIS_CONTAINER_IMAGE=/"+image)},
	{"env_vars", 2, 2, "the option wins", row(in, "cat /work/here", "in the image", "PYXIS_CONTAINER_IMAGE=/missing")},
	{"env_vars", 3, 3, "PYXIS_CONTAINER_MOUNTS", row(in, mounted("/test"), "1", "PYXIS_CONTAINER_MOUNTS=/home:/test")},
	{"env_vars", 4, 4, "the option wins", row(in+" --container-mounts=/tmp:/given", mounted("/given")+";"+mounted("/test"), "1 0",
		"PYXIS_CONTAINER_MOUNTS=/home:/test")},
	{"env_vars", 5, 5, "PYXIS_CONTAINER_WORKDIR", row(in, "pwd", "/usr/bin", "PYXIS_CONTAINER_WORKDIR=/usr/bin")},
	{"env_vars", 6, 6, "the option wins", row(in+" --container-workdir=/tmp", "pwd", "/tmp", "PYXIS_CONTAINER_WORKDIR=/usr/bin")},
	{"env_vars", 7, 7, "PYXIS_CONTAINER_NAME", fresh("variable", func(w *world) error {
		return errors.Join(w.prints(writable, "touch /work/made", "", "PYXIS_CONTAINER_NAME=variable"), w.prints("--container-name=variable", "ls /work", "here made"))
	})},
	{"env_vars", 8, 8, "the option wins", fresh("option", func(w *world) error {
		return errors.Join(w.prints(named+"option", "touch /work/made", "", "PYXIS_CONTAINER_NAME=variable"),
			w.prints("--container-name=option", "ls /work", "here made"), w.fails("--container-name=variable", "there is none on this node"))
	})},
	{"env_vars", 9, 9, "PYXIS_CONTAINER_SAVE", func(w *world) error {
		return errors.Join(w.prints(writable, "touch /work/made", "", "PYXIS_CONTAINER_SAVE=./variable.sqsh"),
			w.prints("--container-image=./variable.sqsh", "ls /work", "here made"), w.removeSaved())
	}},
	{"env_vars", 10, 10, "the option wins", func(w *world) error {
		err := w.prints(writable+" --container-save=./option.sqsh", "touch /work/made", "", "PYXIS_CONTAINER_SAVE=./variable.sqsh")
		if exists(filepath.Join(w.Root, "tmp/variable.sqsh")) {
			err = errors.Join(err, errors.New("the container is saved where the variable says"))
		}
		return errors.Join(err, w.prints("--container-image=./option.sqsh", "ls /work", "here made"), w.removeSaved())
	}},
	{"env_vars", 11, 11, "PYXIS_CONTAINER_MOUNT_HOME=1", row(in+" --container-remap-root", mounted("/root"), "1", "PYXIS_CONTAINER_MOUNT_HOME=1")},
	{"env_vars", 12, 12, "PYXIS_CONTAINER_MOUNT_HOME=0", row(in+" --container-remap-root", mounted("/root"), "0", "PYXIS_CONTAINER_MOUNT_HOME=0")},
	{"env_vars", 13, 13, "the option wins", row(in+" --no-container-mount-home --container-remap-root", mounted("/root"), "0",
		"PYXIS_CONTAINER_MOUNT_HOME=1")},
	{"env_vars", 14, 14, "PYXIS_CONTAINER_REMAP_ROOT=1", row(in, idMap, "0 1000 1", "PYXIS_CONTAINER_REMAP_ROOT=1")},
	{"env_vars", 15, 15, "PYXIS_CONTAINER_REMAP_ROOT=0", row(in, idMap, "1000 1000 1", "PYXIS_CONTAINER_REMAP_ROOT=0")},
	{"env_vars", 16, 16, "the option wins", row(in+" --no-container-remap-root", idMap, "1000 1000 1", "PYXIS_CONTAINER_REMAP_ROOT=1")},
	{"env_vars", 17, 17, "PYXIS_CONTAINER_ENTRYPOINT=1", row(in, "echo $ENTERED", "yes", "PYXIS_CONTAINER_ENTRYPOINT=1")},
	{"env_vars", 18, 18, "PYXIS_CONTAINER_ENTRYPOINT=0", row(in, "echo [$ENTERED]", "[]", "PYXIS_CONTAINER_ENTRYPOINT=0")},
	{"env_vars", 19, 19, "the option wins", row(in+" --container-entrypoint", "echo $ENTERED", "yes", "PYXIS_CONTAINER_ENTRYPOINT=0")},
	{"env_vars", 20, 20, "PYXIS_CONTAINER_ENTRYPOINT_LOG=1", func(w *world) error {
		return w.logs(in+" --container-entrypoint", true, "PYXIS_CONTAINER_ENTRYPOINT_LOG=1")
	}},
	{"env_vars", 21, 21, "PYXIS_CONTAINER_ENTRYPOINT_LOG=0", func(w *world) error {
		return w.logs(in+" --container-entrypoint", false, "PYXIS_CONTAINER_ENTRYPOINT_LOG=0")
	}},
	{"env_vars", 22, 22, "PYXIS_CONTAINER_WRITABLE=1", row(in, "touch /new", "", "PYXIS_CONTAINER_WRITABLE=1")},
	{"env_vars", 23, 23, "PYXIS_CONTAINER_WRITABLE=0", readonly(in, "PYXIS_CONTAINER_WRITABLE=0")},
	{"env_vars", 24, 24, "the option wins", readonly(in+" --container-readonly", "PYXIS_CONTAINER_WRITABLE=1")},
	{"env_vars", 25, 25, "PYXIS_CONTAINER_READONLY=1", readonly(in, "PYXIS_CONTAINER_READONLY=1")},
	{"env_vars", 26, 26, "PYXIS_CONTAINER_READONLY=0", row(in, "touch /new", "", "PYXIS_CONTAINER_READONLY=0")},
	{"env_vars", 27, 27, "the option wins", readonly(in+" --container-readonly", "PYXIS_CONTAINER_READONLY=0")},
	{"env_vars", 28, 28, "PYXIS_CONTAINER_ENV", row(in, "echo $KEPT", "job", "PYXIS_CONTAINER_ENV=KEPT")},
	{"env_vars", 29, 29, "the option wins", row(in+" --container-env=KEPT", "echo $BOTH $KEPT", "image job", "PYXIS_CONTAINER_ENV=BOTH")},

	{"exec", 1, 1, "a process of the node's enters a container by its namespaces", fresh("attached",
		beside(named+"attached", "", func(w *world) error {
			return w.prints("--container-name=attached:exec --overlap", "cat /work/here", "in the image")
		}))},
	{"exec", 2, 2, "a step that joins sees what has been mounted in the container", fresh("attached",
		beside(named+"attached --container-remap-root", "mkdir /mine && mount -t tmpfs none /mine && ", func(w *world) error {
			return w.prints("--container-name=attached --overlap", mounted("/mine"), "1")
		}))},
	{"exec", 3, 3, "a container without a name is joined as JOB.STEP", beside(writable, "echo $SLURM_JOB_ID.$SLURM_STEP_ID >/tmp/step; touch /work/mine; ",
		func(w *world) error {
			var step []byte
			err := native.Within(native.Limit, "the step does not say its name", func() bool {
				step, _ = os.ReadFile(filepath.Join(w.Root, "tmp/step"))
				return strings.HasSuffix(string(step), "\n")
			})
			return errors.Join(err, w.prints("--container-name="+strings.TrimSpace(string(step))+" --overlap", "ls /work", "here mine"),
				os.Remove(filepath.Join(w.Root, "tmp/step")))
		})},
	{"exec", 4, 4, "a step that joins begins in the image's directory", fresh("attached", beside(named+"attached", "cd /etc; ", func(w *world) error {
		return w.prints("--container-name=attached --overlap", "pwd", "/work")
	}))},
	{"exec", 5, 5, "a step that joins is told that its mounts are not made", fresh("attached", beside(named+"attached", "", func(w *world) error {
		r := w.srun("--container-name=attached --overlap --container-mounts=/tmp:/ignored", "ls /ignored 2>/dev/null || echo no")
		if r.out != "no\n" || !strings.Contains(r.err, "--container-mounts is ignored") {
			return fmt.Errorf("want a message, got %+v", r)
		}
		return nil
	}))},
	{"exec", 6, 6, "exec wants a container that runs", fresh("attached", func(w *world) error {
		return errors.Join(w.prints(named+"attached", "true", ""), w.fails("--container-name=attached:exec", "it does not run"))
	})},
	{"exec", 7, 7, "no_exec beside a container that runs is an error: pyxis starts a second one on the same files", fresh("attached",
		beside(named+"attached", "", func(w *world) error {
			return w.fails("--container-name=attached:no_exec --overlap", "it runs on this node")
		}))},

	{"invalid_args", 1, 1, "an image without a name", wrong("--container-image=", "it needs a value")},
	{"invalid_args", 2, 2, "a long name that is none", wrong("--container-image="+strings.Repeat("x+/y", 700)+"=", "is no image's name")},
	{"invalid_args", 3, 3, "./ is a directory, and as an image it has no program", func(w *world) error {
		if r := w.as(nil, "/usr/bin/srun", "--mem=10", "--nodelist="+w.node.Name, "--container-image=./", "true"); r.status == 0 {
			return fmt.Errorf("want a failure, got %+v", r)
		}
		return nil
	}},
	{"invalid_args", 4, 4, "a device", wrong("--container-image=/dev/urandom", "neither a directory nor a file")},
	{"invalid_args", 5, 5, "a name of no container, without an image", wrong("--container-name=nobody", "there is none on this node")},
	{"invalid_args", 6, 6, "a name with a slash", wrong(in+" --container-name=/tmp/foo", "without a slash")},
	{"invalid_args", 7, 7, "a mode without a name", wrong(in+" --container-name=:attach", "want a name")},
	{"invalid_args", 8, 8, "a very long name", wrong(in+" --container-name="+strings.Repeat("a", 300), "at most 200 characters")},
	{"invalid_args", 9, 9, "mounts without any", wrong(in+" --container-mounts=", "it needs a value")},
	{"invalid_args", 10, 10, "a mount without its paths", wrong(in+" --container-mounts=:", "want a source")},
	{"invalid_args", 11, 11, "a mount without its target", wrong(in+" --container-mounts=/tmp:", "want a target")},
	{"invalid_args", 12, 12, "a working directory without its path", wrong(in+" --container-workdir=", "it needs a value")},
	{"invalid_args", 13, 13, "options that contradict each other", wrong(in+" --container-readonly --container-writable", "contradicts")},
	{"invalid_args", 14, 14, "variables without any", wrong(in+" --container-env=", "it needs a value")},
	{"invalid_args", 15, 15, "a comma without a variable", wrong(in+" --container-env FOO,", "want names of variables")},
	{"invalid_args", 16, 16, "a save to a directory", func(w *world) error {
		return errors.Join(w.fails(in+" --container-save=/tmp/", "the path of a file"), w.fails(in+" --container-save=/", "the path of a file"),
			w.fails(in+" --container-save=./", "the path of a file"))
	}},

	{"mount_home", 1, 1, "the home at /root", row(in+" --container-mount-home --container-remap-root", mounted("/root"), "1")},
	{"mount_home", 2, 2, "the home at its place", row(in+" --container-mount-home --no-container-remap-root", mounted("/home/alice"), "1")},
	{"mount_home", 3, 3, "no home at /root", row(in+" --no-container-mount-home --container-remap-root", mounted("/root"), "0")},
	{"mount_home", 4, 4, "no home at its place", row(in+" --no-container-mount-home --no-container-remap-root", mounted("/home/alice"), "0")},

	{"mounts", 1, 1, "a directory", row(in+" --container-mounts=/home:/test", mounted("/test"), "1")},
	{"mounts", 2, 2, "a file, by a relative path", func(w *world) error {
		return errors.Join(w.write("tmp/file", "a file\n", 0o644), w.prints(in+" --container-mounts=./file:/script", "cat /script", "a file"))
	}},
	{"mounts", 3, 3, "a device", row(in+" --container-mounts=/dev/null:/null", "[ -c /null ] && echo yes", "yes")},
	{"mounts", 4, 4, "the working directory", row(in+" --container-mounts=./:/test", mounted("/test"), "1")},
	{"mounts", 5, 5, "several", row(in+" --container-mounts=./:/test,/dev/null:/null,/home:/host/home",
		mounted("/test")+";"+mounted("/null")+";"+mounted("/host/home"), "1 1 1")},
	{"mounts", 6, 6, "/etc/shadow can be mounted, and not read", row(in+" --container-mounts=/etc/shadow:/shadow",
		mounted("/shadow")+"; cat /shadow 2>&1 | grep -c denied", "1 1")},
	{"mounts", 7, 7, "read-only", row(in+" --container-mounts=/tmp:/mnt:ro", "touch /mnt/foo 2>&1 | grep -c Read-only", "1")},
	{"mounts", 8, 8, "two flags", row(in+" --container-mounts=/tmp:/mnt:unbindable+ro",
		"touch /mnt/foo 2>&1 | grep -c Read-only; grep ' /mnt ' /proc/self/mountinfo | grep -c unbindable", "1 1")},
	{"mounts", 9, 9, "a target above the root", wrong(in+" --container-mounts=/home:../home", "leads out of the container")},
	{"mounts", 10, 10, "one path for both", func(w *world) error {
		return errors.Join(w.prints(in, mounted("/var/lib"), "0"), w.prints(in+" --container-mounts=/var/lib", mounted("/var/lib"), "1"))
	}},
	{"mounts", 11, 11, "a tmpfs", row(in+" --container-mounts=tmpfs:/memory", "grep ' /memory ' /proc/self/mountinfo | grep -c ' - tmpfs '", "1")},
	{"mounts", 12, 12, "huge pages", row(in+" --container-mounts=tmpfs:/memory:huge=within_size",
		"grep ' /memory ' /proc/self/mountinfo | grep -c huge=within_size", "1")},
	{"mounts", 13, 13, "another file system", wrong(in+" --container-mounts=devpts:/pts:ro", "want a source")},
	{"mounts", 14, 14, "a target without a slash", wrong(in+" --container-mounts=/tmp:mnt:ro", "want a target")},
	{"mounts", 15, 15, "a space in the source", spaced("/tmp/a test dir:/mnt/test", "cat /mnt/test/file", "hello")},
	{"mounts", 16, 16, "a space in the target", spaced("/tmp:/mnt/my mount", "cat '/mnt/my mount/a test dir/file'", "hello")},
	{"mounts", 17, 17, "a space in both", spaced("/tmp/a test dir:/mnt/my mount", "cat '/mnt/my mount/file'", "hello")},
	{"mounts", 18, 18, "a source that is not there", wrong(in+" --container-mounts=/nonexistent/path/foo:/mnt", "/nonexistent/path/foo: no such file")},
	{"mounts", 19, 19, "one of two that is not there", wrong(in+" --container-mounts=/tmp:/mnt,/nonexistent/path:/mnt2", "/nonexistent/path: no such file")},
	{"mounts", 20, 20, "a mount that is taken away again", row(in+" --container-mount-home --container-remap-root --container-mounts=umount:/root",
		mounted("/root"), "0")},

	{"mpi", 1, 1, "PMIx' directory is in the container", func(w *world) error {
		if w.hasPMIx() {
			return w.prints(in+" --mpi=pmix -n2 -O --container-mounts=umount:/tmp", "[ -n \"$PMIX_SERVER_TMPDIR\" ] && "+
				"[ -d \"$PMIX_SERVER_TMPDIR\" ] && echo yes", "yes yes")
		}
		return errors.Join(os.MkdirAll(filepath.Join(w.Root, "srv/pmix/server"), 0o755),
			w.prints(in, "ls /srv/pmix", "server", "PMIX_SERVER_TMPDIR=/srv/pmix"))
	}},
	{"mpi", 2, 2, "PMIx' variables", func(w *world) error {
		if w.hasPMIx() {
			return w.prints(in+" --mpi=pmix -n2 -O", "[ -n \"$PMIX_MCA_psec\" ] && [ $PMIX_MCA_psec = $PMIX_SECURITY_MODE ] && "+
				"[ $PMIX_MCA_gds = $PMIX_GDS_MODULE ] && echo $((PMIX_RANK - SLURM_PROCID))", "0 0")
		}
		return w.prints(in, "echo $PMIX_RANK $PMIX_MCA_psec $PMIX_MCA_gds", "3 native hash", "PMIX_RANK=3", "PMIX_SECURITY_MODE=native", "PMIX_GDS_MODULE=hash")
	}},
	{"mpi", 3, 3, "a program of PMIx' (no image of Horovod is here)", row(in, "echo $PMIX_RANK", "3", "PMIX_RANK=3")},
	{"mpi", 4, 4, "PMI2's socket is open", row(in+" --mpi=pmi2 -n2 -O", "ls -l /proc/self/fd/$PMI_FD | grep -c socket", "1 1")},
	{"mpi", 5, 5, "PMI2's variables", row(in+" --mpi=pmi2 -n2 -O", "[ -n \"$PMI_RANK\" ] && echo $PMI_SIZE", "2 2")},
	{"mpi4py", 1, 6, "ranks speak by PMI2 in the container (no image of MPI is here)", (*world).pmi2},

	{"name", 1, 1, "nothing stays of a container without a name", func(w *world) error {
		return errors.Join(w.prints(writable, "touch /work/made", ""), w.prints(in, "ls /work", "here"), w.left())
	}},
	{"name", 2, 2, "a container with a name stays", fresh("stays", func(w *world) error {
		return errors.Join(w.prints(named+"stays", "touch /work/made", ""), w.prints(named+"stays", "ls /work", "here made"),
			w.prints("--container-name=stays", "ls /work", "here made"), w.prints(in, "ls /work", "here"))
	})},
	{"name", 3, 3, "a container is removed by hand", fresh("removed", func(w *world) error {
		err := w.prints(named+"removed", "touch /work/made", "")
		if r := w.container("rm", "removed"); r.status != 0 {
			err = errors.Join(err, fmt.Errorf("rm: %+v", r))
		}
		return errors.Join(err, w.fails("--container-name=removed", "there is none on this node"), w.prints(named+"removed", "ls /work", "here"))
	})},
	{"name", 4, 4, "create wants that there is none", fresh("there", func(w *world) error {
		return errors.Join(w.prints(named+"there", "true", ""), w.fails(named+"there:create", "there is one on this node"))
	})},
	{"name", 5, 5, "a cancelled step leaves nothing", func(w *world) error {
		ended, err := w.held(in, "exec sleep 300")
		if err == nil {
			err = errorOf(w.as(nil, "/usr/bin/scancel", "--name=held"))
			<-ended
		}
		return errors.Join(err, w.left())
	}},

	{"path", 1, 2, "a program that only the image's PATH has", (*world).findsProgram},

	{"pytorch", 1, 1, "PyTorch's variables", row(in+" -n2 -O", "[ $RANK = $SLURM_PROCID ] && [ $LOCAL_RANK = $SLURM_LOCALID ] && "+
		"[ $MASTER_PORT = $((61000 + SLURM_JOB_ID % 4536)) ] && echo $MASTER_ADDR $WORLD_SIZE", "n1 2 n1 2")},
	{"pytorch", 2, 2, "its ranks", row(in+" -n2 -O", "[ $((LOCAL_RANK + RANK)) = $((SLURM_LOCALID * 2)) ] && echo same", "same same")},

	{"remap_root", 1, 1, "root's numbers", row(in+" --container-remap-root", "id -u; "+idMap, "0 0 1000 1")},
	{"remap_root", 2, 2, "the user's numbers", row(in+" --no-container-remap-root", "id -u; "+idMap, "1000 1000 1000 1")},
	{"remap_root", 3, 3, "root's system calls are filtered", row(in+" --container-remap-root", "grep -c 'Seccomp:.*2' /proc/self/status", "1")},
	{"remap_root", 4, 4, "the user's are not: chown(2) says that it fails", row(writable+" --no-container-remap-root",
		"grep -c 'Seccomp:.*2' /proc/self/status; chown 7:7 /work 2>/dev/null || echo no", "0 no")},
	{"remap_root", 5, 8, "what apt and yum ask of root succeeds", row(writable+" --container-remap-root",
		"touch /work/x && chown 7:7 /work/x && chgrp 9 /work/x && mkdir -p /usr/share/new && ln -s /work/x /usr/share/new/x && echo done", "done")},

	{"sbatch", 1, 2, "options of sbatch's, and lines of the script", (*world).batchLines},

	{"squashfs_image", 1, 1, "an image that has been imported", func(w *world) error {
		return errors.Join(w.imports("docker-archive:/srv/deep.tar", "-o", "/tmp/imported.sqsh"), w.prints("--container-image=./imported.sqsh", "cat /work/59", "59"))
	}},
	{"squashfs_image", 2, 2, "import, change, save, and start", fresh("changed", func(w *world) error {
		return errors.Join(w.prints("--container-image=./imported.sqsh --container-writable --container-name=changed", "touch /work/made", ""),
			w.prints("--container-name=changed --container-save=./changed.sqsh", "true", ""),
			w.prints("--container-image=./changed.sqsh", "ls /work/made; cat /work/59", "/work/made 59"))
	})},
	{"squashfs_image", 3, 3, "a save to an absolute path, and again", savedTwice("/tmp/twice.sqsh")},
	{"squashfs_image", 4, 4, "a save to a relative path, and again", savedTwice("./twice.sqsh")},
	{"squashfs_image", 5, 5, "a file that can be written", row("--container-image=./imported.sqsh --container-writable", "echo x >/work/x && cat /work/x", "x")},
	{"squashfs_image", 6, 6, "a file with a mount", row("--container-image=./imported.sqsh --container-mounts=/tmp/file:/mnt/file", "cat /mnt/file", "a file")},
	{"squashfs_image", 7, 7, "a file with a working directory", row("--container-image=./imported.sqsh --container-workdir=/tmp", "pwd", "/tmp")},
	{"squashfs_image", 8, 8, "a file without root", row("--container-image=./imported.sqsh --no-container-remap-root", "id -u", "1000")},
	{"squashfs_image", 9, 9, "a file with four tasks", row("--container-image=./imported.sqsh -n4 -O", "cat /work/59", "59 59 59 59")},
	{"squashfs_image", 10, 10, "a file in two steps at once", beside("--container-image=./imported.sqsh", "",
		row("--container-image=./imported.sqsh --overlap", "cat /work/59", "59"))},
	{"squashfs_image", 11, 11, "nothing stays", func(w *world) error {
		return errors.Join(w.prints("--container-image=./imported.sqsh", "true", ""), w.left(), w.removeSaved())
	}},
	{"squashfs_image", 12, 12, "a file that is not there", wrong("--container-image=./nonexistent.sqsh", "no such file")},

	{"ssh", 1, 1, "a server in the container is reached from the node (no sshd is here)", beside(in, "echo hello >/dev/shm/served; ",
		row("--overlap", "cat /dev/shm/served; rm /dev/shm/served", "hello"))},
	{"ssh", 2, 2, "a step joins the server's container", fresh("server", beside(named+"server", "", row("--overlap --container-name=server", "cat /work/here", "in the image")))},

	{"unshare", 1, 1, "an unknown namespace", wrong(in+" --container-unshare=foo", "want net, ipc or uts")},
	{"unshare", 2, 2, "one of two", wrong(in+" --container-unshare=net,foo", "want net, ipc or uts")},
	{"unshare", 3, 3, "all three", unshares("--container-unshare=net,ipc,uts", "net", "ipc", "uts")},
	{"unshare", 4, 4, "PYXIS_CONTAINER_UNSHARE", func(w *world) error { return w.differs([]string{"net"}, in, "PYXIS_CONTAINER_UNSHARE=net") }},

	{"unshare_ipc", 1, 1, "a namespace of its own", unshares("--container-unshare=ipc", "ipc")},
	{"unshare_ipc", 2, 2, "one for all tasks", oneOf("ipc")},
	{"unshare_ipc", 3, 3, "System V's shared memory", func(w *world) error {
		return errors.Join(w.prints(in+" --container-unshare=ipc", "ipcmk -M 4096 >/dev/null && ipcs -m | grep -c ^0x", "1"),
			w.prints("", "ipcs -m | grep -c ^0x || true", "0"))
	}},
	{"unshare_ipc", 4, 4, "/dev/shm and /dev/mqueue of its own; /dev has the pod's devices", row(in+" --container-unshare=ipc",
		"for d in /dev/shm /dev/mqueue; do [ $(stat -c %d $d) = $(stat -c %d /proc/$PPID/root$d 2>/dev/null || echo 0) ] || echo own; done; "+
			"touch /dev/shm/mine; ls /dev/shm", "own own mine")},
	{"unshare_ipc", 5, 5, "otherwise the node's", shares("ipc")},
	{"unshare_ipc", 6, 6, "a step that joins has the container's", joins("ipc")},
	{"unshare_ipc", 7, 7, "a step that joins and wants one where there is none", joinsNone("ipc")},

	{"unshare_net", 1, 1, "a namespace of its own", unshares("--container-unshare=net", "net")},
	{"unshare_net", 2, 2, "one for all tasks", oneOf("net")},
	{"unshare_net", 3, 3, "its loopback answers", row(in+" --container-unshare=net", "bash -c 'exec </dev/tcp/127.0.0.1/65535' 2>&1 | grep -q refused && echo yes", "yes")},
	{"unshare_net", 4, 4, "it reaches nobody", row(in+" --container-unshare=net", "bash -c 'exec </dev/tcp/8.8.8.8/53' 2>&1 | grep -q unreachable && echo yes", "yes")},
	{"unshare_net", 5, 5, "otherwise the node's", shares("net")},
	{"unshare_net", 6, 6, "a step that joins has the container's", joins("net")},
	{"unshare_net", 7, 7, "a step that joins and wants one where there is none", joinsNone("net")},

	{"unshare_uts", 1, 1, "a namespace of its own", unshares("--container-unshare=uts", "uts")},
	{"unshare_uts", 2, 2, "one for all tasks", oneOf("uts")},
	{"unshare_uts", 3, 3, "a host name of its own", func(w *world) error {
		return errors.Join(w.prints(in+" --container-unshare=uts", "hostname", w.node.Name),
			w.prints(in+" --container-unshare=uts --container-remap-root", "hostname mine && hostname", "mine"), w.prints("", "hostname", w.node.Name))
	}},
	{"unshare_uts", 4, 4, "otherwise the node's", shares("uts")},
	{"unshare_uts", 5, 5, "a step that joins has the container's", joins("uts")},
	{"unshare_uts", 6, 6, "a step that joins and wants one where there is none", joinsNone("uts")},

	{"workdir", 1, 1, "an absolute path", row(in+" --container-workdir=/usr/bin", "pwd", "/usr/bin")},
	{"workdir", 2, 2, "a path above the root", row(in+" --container-workdir=../", "pwd", "/")},
	{"workdir", 3, 3, "a directory that is not there", wrong(in+" --container-workdir=/pyxis", "/pyxis: No such file or directory")},
	{"workdir", 4, 4, "the image's", row(in, "pwd", "/work")},

	{"writable", 1, 1, "a root that cannot be written", readonly(in + " --container-readonly")},
	{"writable", 2, 2, "a root that can be written", row(writable, "touch /new", "")},
}

func readonly(options string, environ ...string) func(*world) error {
	return row(options, "touch /new 2>&1 | grep -c Read-only", "1", environ...)
}

// logs is an error unless what the entrypoint prints is shown, or not.
func (w *world) logs(options string, want bool, environ ...string) error {
	if r := w.srun(options, "true", environ...); r.status != 0 || strings.Contains(r.err, "entered") != want {
		return fmt.Errorf("%s: want the entrypoint's message to be %v, got %+v", options, want, r)
	}
	return nil
}

// atOnce runs many steps of one job in five containers with names.
func (w *world) atOnce(steps int, mode string) error {
	script := fmt.Sprintf("for i in $(seq %d); do srun --overlap --mem=0 -n1 %sat-$((i %% 5))%s cat /work/here & done; wait", steps, named, mode)
	r := w.as(nil, "/usr/bin/salloc", "--mem=10", "--nodelist="+w.node.Name, "/bin/sh", "-c", script)
	var err error
	if got := strings.Count(r.out, "in the image\n"); got != steps {
		err = fmt.Errorf("%d of %d steps ran: %+v", got, steps, r)
	}
	if mode == "" {
		for i := range 5 {
			if r := w.container("rm", fmt.Sprintf("at-%d", i)); r.status != 0 {
				err = errors.Join(err, fmt.Errorf("rm: %+v", r))
			}
		}
	}
	return errors.Join(err, w.left())
}

// static runs a program without a C library, in an image that has nothing else.
func (w *world) static() error {
	dir := filepath.Join(w.Root, "srv/static")
	program, err := os.ReadFile(filepath.Join(w.Root, "usr/local/bin/slurmlet-container"))
	err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "program"), program, 0o755), os.Chown(dir, alice, alice))
	r := w.as(nil, "/usr/bin/srun", "--mem=10", "--nodelist="+w.node.Name, "--container-image=/srv/static", "/program", "version")
	if r.status != 0 || r.out == "" {
		err = errors.Join(err, fmt.Errorf("want a version, got %+v", r))
	}
	return err
}

// pmi2 has two ranks speak to PMI2's server, which slurmstepd is.
func (w *world) pmi2() error {
	const answer = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0"
	const script = `echo "cmd=init pmi_version=2 pmi_subversion=0" >&$PMI_FD; read -r answer <&$PMI_FD; echo $answer`
	return w.prints(in+" --mpi=pmi2 -n2 -O", "bash -c '"+script+"'", answer+" "+answer)
}

// hasPMIx says whether this release of Debian's has Slurm's plugin for PMIx.
func (w *world) hasPMIx() bool { return exists(filepath.Join(w.Root, plugins, "mpi_pmix.so")) }

func (w *world) findsProgram() error {
	dir := filepath.Join(w.Root, "srv/static")
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "own"), 0o755), os.MkdirAll(filepath.Join(dir, "etc"), 0o755),
		os.Rename(filepath.Join(dir, "program"), filepath.Join(dir, "own/in-the-image")),
		os.WriteFile(filepath.Join(dir, "etc/environment"), []byte("PATH=/own\n"), 0o644))
	r := w.as(nil, "/usr/bin/srun", "--mem=10", "--nodelist="+w.node.Name, "--container-image=/srv/static", "in-the-image", "version")
	if r.status != 0 || r.out == "" {
		err = errors.Join(err, fmt.Errorf("want a version, got %+v", r))
	}
	return err
}

func (w *world) batchLines() error {
	run := func(lines string, options ...string) error {
		_ = os.Remove(filepath.Join(w.Root, "tmp/job.out"))
		if err := w.write("tmp/job", "#!/bin/sh\n"+lines+"cat /work/here\n", 0o755); err != nil {
			return err
		}
		args := append([]string{"--wait", "--mem=10", "--nodelist=" + w.node.Name, "--output=/tmp/job.out"}, options...)
		r := w.as(nil, "/usr/bin/sbatch", append(args, "/tmp/job")...)
		out, err := os.ReadFile(filepath.Join(w.Root, "tmp/job.out"))
		if r.status != 0 || string(out) != "in the image\n" {
			err = errors.Join(err, fmt.Errorf("sbatch %s %s: %+v, %s", options, lines, r, out))
		}
		return err
	}
	return errors.Join(run("", in), run("#SBATCH "+in+"\n"))
}

func savedTwice(path string) func(*world) error {
	return func(w *world) error {
		again := "--container-image=" + path + " --container-writable --container-save=" + path
		return errors.Join(
			w.prints(writable+" --container-save="+path, "echo 1 >/work/1", ""),
			w.prints(again, "echo 2 >/work/2", ""),
			w.prints(again+" --container-remap-root", "touch /usr/bin/new", ""),
			w.prints("--container-image="+path, "cat /work/1 /work/2; ls /usr/bin/new", "1 2 /usr/bin/new"),
			os.Remove(filepath.Join(w.Root, "tmp/twice.sqsh")))
	}
}

// nodes are the namespaces of a step without a container.
func (w *world) nodes(kinds []string) (string, error) {
	r := w.srun("", links(kinds))
	return r.out, errorOf(r)
}

func links(kinds []string) string {
	var all []string
	for _, kind := range kinds {
		all = append(all, "readlink /proc/self/ns/"+kind)
	}
	return strings.Join(all, ";")
}

// differs is an error unless a step has namespaces that are not the node's.
func (w *world) differs(kinds []string, options string, environ ...string) error {
	node, err := w.nodes(kinds)
	r := w.srun(options, links(kinds), environ...)
	if r.status != 0 || r.out == "" {
		return errors.Join(err, fmt.Errorf("%s: %+v", options, r))
	}
	for link := range strings.FieldsSeq(r.out) {
		if strings.Contains(node, link) {
			err = errors.Join(err, fmt.Errorf("%s: %s is the node's", options, link))
		}
	}
	return err
}

func unshares(option string, kinds ...string) func(*world) error {
	return func(w *world) error { return w.differs(kinds, in+" "+option) }
}

func oneOf(kind string) func(*world) error {
	return func(w *world) error {
		r := w.srun(in+" -n4 -O --container-unshare="+kind, links([]string{kind}))
		all := strings.Fields(r.out)
		if r.status != 0 || len(all) != 4 || strings.Count(r.out, all[0]) != 4 {
			return fmt.Errorf("want one namespace for four tasks, got %+v", r)
		}
		return w.differs([]string{kind}, in+" --container-unshare="+kind)
	}
}

func shares(kind string) func(*world) error {
	return func(w *world) error {
		node, err := w.nodes([]string{kind})
		return errors.Join(err, w.prints(in, links([]string{kind}), strings.TrimSpace(node)))
	}
}

func joins(kind string) func(*world) error {
	return fresh("unshares", beside(named+"unshares --container-unshare="+kind, "", func(w *world) error {
		return w.differs([]string{kind}, "--container-name=unshares --overlap")
	}))
}

func joinsNone(kind string) func(*world) error {
	return fresh("shares", beside(named+"shares", "", func(w *world) error {
		return w.fails("--container-name=shares --overlap --container-unshare="+kind, "runs already, and has the node's")
	}))
}
