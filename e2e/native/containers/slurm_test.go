//go:build e2e

package containers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// slurmCases use the node's Slurm in a container whose image has none.
var slurmCases = []testCase{
	{"Slurm's commands work in a container", (*world).slurmInside},
	{"a job that runs in a container starts steps and jobs", (*world).slurmStarts},
	{"Slurm is left out, and is not saved", func(w *world) error {
		return errors.Join(
			w.prints(in+" --no-container-slurm", "ls -d /.slurmlet 2>/dev/null || echo none; command -v srun || echo none", "none none"),
			w.prints(in, "command -v srun || echo none", "none", "PYXIS_CONTAINER_SLURM=0"),
			w.prints(in+" --container-slurm", "command -v srun", "/.slurmlet/bin/srun"),
			w.prints(in+" --container-slurm", "touch /.slurmlet/x /.slurmlet/bin/x /.slurmlet/lib/x 2>&1 | grep -c Read-only", "3"),
			w.prints(in+" --container-save=/tmp/without.sqsh", "true", ""),
			w.prints("--container-image=/tmp/without.sqsh --no-container-slurm", "ls -d /.slurmlet 2>/dev/null || echo none", "none"),
			w.removeSaved(), w.left())
	}},
}

func (w *world) slurmInside() error {
	script := "squeue -h -j $SLURM_JOB_ID -o %i | grep -c \"^$SLURM_JOB_ID$\"; sinfo -h -n n1 -o %N; scontrol show node n1 | grep -c NodeName=n1"
	const want = "1 n1 1"
	return errors.Join(
		w.prints(in, script, want),
		w.prints(in+" --container-remap-root", "id -u; "+script, "0 "+want),
		w.prints("--container-image=/"+squashed+" --container-writable", script, want),
		// what the image says of libraries is not the pod's programs'
		w.prints(in, "export LD_LIBRARY_PATH=/work; "+script, want),
		w.slurmWithoutLibrary(), w.left())
}

// slurmWithoutLibrary has an image with no C library and no shell.
func (w *world) slurmWithoutLibrary() error {
	dir := filepath.Join(w.Root, "srv/empty")
	err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, alice, alice))
	r := w.as(nil, "/usr/bin/srun", "--mem=10", "--nodelist="+w.node.Name, "--container-image=/srv/empty", "/.slurmlet/bin/sinfo", "-h", "-n", "n1", "-o", "%N")
	if r.status != 0 || r.out != "n1\n" {
		err = errors.Join(err, fmt.Errorf("want the node's name, got %+v", r))
	}
	return err
}

func (w *world) slurmStarts() error {
	lines := "#!/bin/sh\n#SBATCH --mem=20\n" +
		"srun --overlap --mem=0 -n1 sh -c 'cat /work/here; pwd'\n" + // in the job's image
		"srun --overlap --mem=0 -n1 --container-image=/" + squashed + " --container-workdir=/etc sh -c 'readlink /link; pwd'\n" +
		"srun --overlap --mem=0 -n1 --container-image=/ta-ta: true 2>&1 | grep -o 'no such file'\n" +
		"srun --overlap --mem=0 -n1 sh -c 'exit 7'; echo status $?\n" +
		"srun --overlap --mem=0 -n1 --container-image=./relative.sqsh pwd\n" +
		"id=$(sbatch --parsable --hold --output=/dev/null --wrap=true) && scancel $id && squeue -h -j $id | grep -c . \n"
	const want = "in the image /work /work /etc no such file status 7 /work 0"
	if err := os.Symlink("/"+squashed, filepath.Join(w.Root, "tmp/relative.sqsh")); err != nil {
		return err
	}
	var err error
	for _, more := range []string{"", "--container-remap-root"} {
		_ = os.Remove(filepath.Join(w.Root, "tmp/job.out"))
		err = errors.Join(err, w.write("tmp/job", lines, 0o755))
		args := append([]string{"--wait", "--nodelist=" + w.node.Name, "--output=/tmp/job.out", "--error=/tmp/job.err", "--chdir=/tmp", in}, strings.Fields(more)...)
		r := w.as(nil, "/usr/bin/sbatch", append(args, "/tmp/job")...)
		out, failed := os.ReadFile(filepath.Join(w.Root, "tmp/job.out"))
		said, _ := os.ReadFile(filepath.Join(w.Root, "tmp/job.err"))
		if got := strings.Join(strings.Fields(string(out)), " "); got != want || strings.Contains(string(said), "chdir") {
			err = errors.Join(err, failed, fmt.Errorf("sbatch %s: want %q, got %q, %+v, and on stderr:\n%s", more, want, got, r, said))
		}
	}
	err = errors.Join(err, w.slurmNamed(), os.Remove(filepath.Join(w.Root, "tmp/relative.sqsh")))
	return errors.Join(err, native.Within(native.Limit, "a job is left", func() bool {
		return w.as(nil, "/usr/bin/squeue", "-h").out == ""
	}), w.left())
}

// slurmNamed has a step of a job's join the job's container, which the job alone creates and saves.
func (w *world) slurmNamed() error {
	lines := "#!/bin/sh\n#SBATCH --mem=20\necho >/work/of-the-job\nsrun --overlap --mem=0 -n1 ls /work\n"
	err := w.write("tmp/job", lines, 0o755)
	r := w.as(nil, "/usr/bin/sbatch", "--wait", "--nodelist="+w.node.Name, "--output=/tmp/job.out", "--chdir=/tmp", in, "--container-writable",
		"--container-name=nested:create", "--container-save=./nested.sqsh", "/tmp/job")
	out, failed := os.ReadFile(filepath.Join(w.Root, "tmp/job.out"))
	said := string(out)
	if r.status != 0 || !strings.Contains(said, "here\nof-the-job\n") || strings.Count(said, "has saved") != 1 {
		err = errors.Join(err, failed, fmt.Errorf("want a step in the job's container, and one save, got %+v, %s", r, said))
	}
	if r := w.container("rm", "nested"); r.status != 0 {
		err = errors.Join(err, fmt.Errorf("rm: %+v", r))
	}
	return errors.Join(err, w.prints("--container-image=/tmp/nested.sqsh", "ls /work", "here of-the-job"), os.Remove(filepath.Join(w.Root, "tmp/nested.sqsh")))
}
