//go:build e2e

package containers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// importCases have a real registry, which holds the image of the other cases as a user's build would push it.
var importCases = []testCase{
	{"an image of a registry becomes a file, and a step's root", func(w *world) error {
		return errors.Join(
			w.imports("docker://"+w.registry.front+"#team/app:1", "-o", "/tmp/app.sqsh"),
			w.prints("--container-image=/tmp/app.sqsh", "cat /work/here; pwd; echo $ONLY; id -un; ls /work; ls /work/sub; ls /dev/of-the-image 2>/dev/null || true",
				"in the image /work of-the-image alice here linked sub new"),
			w.prints("--container-image=/tmp/app.sqsh", "[ /work/here -ef /work/linked ] && echo one file", "one file"),
			w.prints("--container-image=/tmp/app.sqsh --container-entrypoint", "echo $ONLY", "of-the-image"),
			w.prints("--container-image=/tmp/app.sqsh --container-remap-root --container-writable", "touch /usr/new /work/sub/x && ls /work/sub", "new x"),
			w.imports(w.registry.front+"/team/app@"+w.registry.digest, "-o", "/tmp/same.sqsh"),
			w.refuses("is there already", "docker://"+w.registry.front+"#team/app:1", "-o", "/tmp/app.sqsh"),
			w.clean("/tmp"),
		)
	}},
	{"sixty layers, two archives and an OCI layout make the same", func(w *world) error {
		const layers = "cat /work/59; ls /work | grep -c ."
		return errors.Join(
			w.imports(w.registry.front+"/team/deep:1", "-o", "/tmp/deep.sqsh"),
			w.prints("--container-image=/tmp/deep.sqsh", layers, "59 61"),
			w.imports("docker-archive:/srv/deep.tar", "-o", "/tmp/archive.sqsh"),
			w.prints("--container-image=/tmp/archive.sqsh", layers, "59 61"),
			w.imports("oci:/srv/deep", "-o", "/tmp/layout.sqsh"),
			w.prints("--container-image=/tmp/layout.sqsh", layers, "59 61"),
			w.imports("oci-archive:/srv/deep-oci.tar", "-o", "/tmp/packed.sqsh"),
			w.prints("--container-image=/tmp/packed.sqsh", layers, "59 61"),
			w.refuses("it has no index.json", "oci-archive:/srv/deep.tar", "-o", "/tmp/none.sqsh"),
			w.refuses("tar header", "oci-archive:/srv/image.sqsh", "-o", "/tmp/none.sqsh"),
			w.refuses("has no image x, but", "oci-archive:/srv/deep-oci.tar:x", "-o", "/tmp/none.sqsh"),
			w.refuses("no such file", "docker-archive:/srv/missing.tar"),
			w.refuses("OCI layout", "oci:/srv/image"),
			w.clean("/tmp"),
		)
	}},
	{"a registry's users, by docker's and enroot's files", (*world).importUsers},
	{"a registry that answers 503, and cuts connections", func(w *world) error {
		w.registry.set(func(f *faults) { f.away, f.cut = 2, 1<<20 })
		defer w.registry.set(func(f *faults) { *f = faults{} })
		return errors.Join(
			w.imports(w.registry.front+"/team/app:1", "-o", "/tmp/cut.sqsh"),
			w.prints("--container-image=/tmp/cut.sqsh", "cat /work/here", "in the image"),
			w.registry.played(),
		)
	}},
	{"what is not as its digest says makes no file", func(w *world) error {
		w.registry.set(func(f *faults) { f.broken = true })
		defer w.registry.set(func(f *faults) { *f = faults{} })
		return errors.Join(w.refuses("sha256", w.registry.front+"/team/app:1", "-o", "/tmp/broken.sqsh"), w.clean("/tmp"))
	}},
	{"an image of another architecture", func(w *world) error {
		return errors.Join(
			w.refuses("has no image for linux/amd64, but for linux/arm64", w.registry.front+"/team/arm:1", "-o", "/tmp/arm.sqsh"),
			w.imports(w.registry.front+"/team/arm:1", "-o", "/tmp/arm.sqsh", "--arch", "aarch64"),
			w.refuses("there is no image", w.registry.front+"/team/none:1", "-o", "/tmp/none.sqsh"),
			w.clean("/tmp"),
		)
	}},
	{"a full disk leaves nothing", (*world).importFull},
	{"a cancelled import leaves nothing", (*world).importCancelled},
}

// imports is an error unless an import succeeds.
func (w *world) imports(args ...string) error {
	return w.importsAs(nil, args...)
}

func (w *world) importsAs(environ []string, args ...string) error {
	if r := w.as(environ, "/usr/local/bin/slurmlet-container", append([]string{"import"}, args...)...); r.status != 0 {
		return fmt.Errorf("import %s: status %d: %s", args, r.status, r.err)
	}
	return nil
}

// refuses is an error unless an import fails and says why.
func (w *world) refuses(why string, args ...string) error {
	return w.refusesAs(nil, why, args...)
}

func (w *world) refusesAs(environ []string, why string, args ...string) error {
	r := w.as(environ, "/usr/local/bin/slurmlet-container", append([]string{"import"}, args...)...)
	if r.status == 0 || !strings.Contains(r.err, why) || strings.Contains(r.err, secret) {
		return fmt.Errorf("import %s: want %q, got status %d: %s", args, why, r.status, r.err)
	}
	return nil
}

// clean is an error where an import has left a file that is not whole.
func (w *world) clean(dir string) error {
	left, err := filepath.Glob(filepath.Join(w.Root, dir, ".*"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("an import has left %s", left)
	}
	return err
}

func (w *world) importUsers() error {
	w.registry.set(func(f *faults) { f.users = true })
	defer w.registry.set(func(f *faults) { *f = faults{} })
	home := filepath.Join(w.Root, "home/alice")
	put := func(path, text string) error {
		to := filepath.Join(home, path)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o644))
	}
	config := func(auth string) string { return fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, w.registry.front, auth) }
	image := w.registry.front + "/team/app:1"
	err := errors.Join(
		w.refuses("came as a stranger", image, "-o", "/tmp/none.sqsh"),
		put(".docker/config.json", config(encoded("alice:wrong"))),
		w.refuses("as alice, with the credentials of /home/alice/.docker/config.json", image, "-o", "/tmp/none.sqsh"),
		put(".docker/config.json", config(encoded("alice:"+secret))),
		w.imports(image, "-o", "/tmp/docker.sqsh"),
		w.refuses("no credentials of bob", "docker://bob@"+w.registry.front+"#team/app:1", "-o", "/tmp/none.sqsh"),
		put(".config/enroot/.credentials", fmt.Sprintf("machine 127.0.0.1 login bob password $(echo '%s')\n", secret)),
		w.imports("docker://bob@"+w.registry.front+"#team/app:1", "-o", "/tmp/enroot.sqsh"),
	)
	w.registry.set(func(f *faults) { f.basic = true })
	return errors.Join(err, w.imports("docker://bob@"+w.registry.front+"#team/app:1", "-o", "/tmp/basic.sqsh"),
		os.RemoveAll(filepath.Join(home, ".docker")), os.RemoveAll(filepath.Join(home, ".config")), w.clean("/tmp"))
}

func (w *world) importFull() error {
	small := filepath.Join(w.Root, "srv/small")
	if err := errors.Join(os.MkdirAll(small, 0o755), unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k,mode=1777")); err != nil {
		return err
	}
	image := w.registry.front + "/team/app:1"
	err := errors.Join(
		w.refuses("/srv/small has", image, "-o", "/srv/small/app.sqsh"),
		w.refusesAs([]string{"TMPDIR=/tmp"}, "cannot write /srv/small/app.sqsh", image, "-o", "/srv/small/app.sqsh"),
		w.refuses("permission denied", image, "-o", "/srv/app.sqsh"),
		w.clean("/srv/small"), w.clean("/tmp"),
	)
	return errors.Join(err, unix.Unmount(small, unix.MNT_DETACH))
}

// importCancelled ends an import whose layers do not come, as scancel does.
func (w *world) importCancelled() error {
	w.registry.set(func(f *faults) { f.still = true })
	defer w.registry.set(func(f *faults) { *f = faults{} })
	cmd := w.Command("/usr/local/bin/slurmlet-container", "import", w.registry.front+"/team/app:1", "-o", "/tmp/late.sqsh")
	cmd.Dir, cmd.Env = "/tmp", append(cmd.Env, "HOME=/home/alice")
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: alice, Gid: alice}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	err := native.Within(native.Limit, "the import has asked for no layer", w.registry.holds)
	began := time.Now()
	err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
	ended := cmd.Wait()
	fmt.Printf("  cancelled in %v\n", time.Since(began).Round(time.Millisecond))
	if ended == nil || !strings.Contains(said.String(), "cancelled") {
		err = errors.Join(err, fmt.Errorf("want an import that is cancelled, got %v: %s", ended, said.String()))
	}
	return errors.Join(err, w.clean("/tmp"))
}
