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

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// little is a file system of the node that has room for no image.
const little = "srv/little"

// saveCases have --container-save.
var saveCases = []testCase{
	{"a container is saved to a file, and starts from it", (*world).save},
	{"a container with a name is saved, also by a step that has joined it", (*world).saveNamed},
	{"a save takes the status of the tasks, and their input and output are as without it", (*world).saveStatus},
	{"a save that cannot be is known as early as it can, and makes the step fail", (*world).saveWrong},
	{"a save that is cancelled or killed leaves nothing", (*world).saveEnds},
	{"sbatch saves its container", (*world).saveBatch},
	{"each node of a step saves to a path that they share, and the last one's file stays whole", (*world).saveOfTwo},
}

// saves are the options of a step that writes and saves to a file.
func saves(image, to string) string {
	return image + " --container-writable --container-save=" + to
}

// unsaved is an error where there is a file, or a part of one, in a directory.
func (w *world) unsaved(dir string) error {
	left, err := filepath.Glob(filepath.Join(w.Root, dir, ".slurmlet-save-*"))
	more, failed := filepath.Glob(filepath.Join(w.Root, dir, "*.sqsh"))
	if left = append(left, more...); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("a save has left %v", left))
	}
	return errors.Join(err, failed)
}

func (w *world) save() error {
	const saved = "--container-image=/tmp/saved.sqsh"
	err := errors.Join(w.write("tmp/on-the-node", "", 0o644), w.unsaved("tmp"))
	script := "echo first >/work/test; cat /work/test >/work/linked; rm /work/linked; ln /work/test /work/linked; ln -s test /work/soft; mkdir /work/dir"
	r := w.srun(saves(in, "/tmp/saved.sqsh")+" --container-mounts=/srv:/work/of-the-node --container-mount-home", script)
	// it is whole when srun has ended
	info, failed := os.Stat(filepath.Join(w.Root, "tmp/saved.sqsh"))
	if r.status != 0 || failed != nil || !strings.Contains(r.err, "slurmlet: "+w.node.Name+": has saved the container to /tmp/saved.sqsh, ") {
		return errors.Join(err, failed, fmt.Errorf("want a container that is saved, got %+v", r))
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != alice || info.Mode() != 0o644 {
		err = errors.Join(err, fmt.Errorf("the file is %d's, with mode %v", owner, info.Mode()))
	}
	err = errors.Join(err,
		w.prints(saved, "cat /work/test; [ /work/test -ef /work/linked ] && readlink /work/soft; pwd; echo $ONLY; ls /work/of-the-node /work/dir; ls /home/alice",
			"first test /work image /work/dir: /work/of-the-node:"),
		w.prints(saved+" --container-mounts=umount:/tmp,umount:/proc,umount:/sys", "ls /tmp /proc /sys", "/proc: /sys: /tmp:"),
		// onto the file that it runs from
		w.prints(saves(saved, "./saved.sqsh")+" --chdir=/tmp", "echo second >/work/test2", ""),
		w.prints(saves("--container-image=./saved.sqsh", "saved.sqsh")+" --container-remap-root", "id -u; chown 7:7 /work/test; rm /work/linked", "0"),
		w.prints(saved, "cat /work/test /work/test2; ls /work", "first second dir here of-the-node soft test test2"),
		w.prints(in+" --container-save=/tmp/readonly.sqsh", "touch /work/no 2>/dev/null || echo no", "no"),
		w.prints("--container-image=/tmp/readonly.sqsh", "ls /work", "here"),
		w.prints(in, "true", "", "PYXIS_CONTAINER_SAVE=/tmp/variable.sqsh"),
		w.prints("--container-image=/tmp/variable.sqsh", "ls /work", "here"),
		w.left(),
	)
	// what leads to a file stays a link, as with enroot
	err = errors.Join(err, os.Symlink("saved.sqsh", filepath.Join(w.Root, "tmp/link.sqsh")),
		w.prints(saves(in, "/tmp/link.sqsh"), "echo third >/work/test", ""),
		w.prints(saved, "cat /work/test; ls /work", "third here test"))
	// an image without enroot's files gets them, so that enroot can start what is saved
	return errors.Join(err,
		w.prints(saves(in, "/tmp/bare.sqsh"), "rm /etc/rc /etc/environment; ls /etc/fstab 2>/dev/null || true", ""),
		w.prints("--container-image=/tmp/bare.sqsh --container-entrypoint", "pwd; ls /etc/rc /etc/environment /etc/fstab", "/ /etc/environment /etc/fstab /etc/rc"),
		w.removeSaved(), w.left())
}

// removeSaved removes alice's files, and is an error where there is a part of one.
func (w *world) removeSaved() error {
	all, err := filepath.Glob(filepath.Join(w.Root, "tmp/*.sqsh"))
	for _, path := range all {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, w.unsaved("tmp"))
}

func (w *world) saveNamed() error {
	named := in + " --container-writable --container-name=saved --overlap"
	err := w.prints(named+" --container-save=/tmp/named.sqsh", "echo 1 >/work/count", "")
	ended, failed := w.held(named, "until [ -e /tmp/go ]; do sleep 0.05; done")
	if failed != nil {
		return errors.Join(err, failed)
	}
	err = errors.Join(err,
		w.prints("--container-name=saved:exec --overlap --container-save=/tmp/joined.sqsh", "echo 2 >/work/count", ""),
		w.write("tmp/go", "", 0o644))
	if r := <-ended; r.status != 0 {
		err = errors.Join(err, fmt.Errorf("the held step: %+v", r))
	}
	err = errors.Join(err, os.Remove(filepath.Join(w.Root, "tmp/go")),
		w.prints("--container-image=/tmp/named.sqsh", "cat /work/count", "1"),
		w.prints("--container-image=/tmp/joined.sqsh", "cat /work/count", "2"),
		w.prints("--container-name=saved", "cat /work/count", "2"))
	if r := w.container("rm", "saved"); r.status != 0 {
		err = errors.Join(err, fmt.Errorf("rm: %+v", r))
	}
	return errors.Join(err, w.removeSaved(), w.left())
}

func (w *world) saveStatus() error {
	var err error
	for script, want := range map[string]int{"exit 3": 3, "kill -9 $$": 137, "kill -s USR1 $$": 128 + int(syscall.SIGUSR1)} {
		r := w.srun(saves(in, "/tmp/status.sqsh"), "echo x >/work/x; "+script)
		if r.status != want {
			err = errors.Join(err, fmt.Errorf("%s: want the status %d, got %+v", script, want, r))
		}
		err = errors.Join(err, w.prints("--container-image=/tmp/status.sqsh", "cat /work/x", "x"), w.removeSaved())
	}
	// one task's end is the other's: each has its own ends of its pipes
	r := w.as(nil, "/bin/sh", "-c", "echo input | timeout 20 srun --mem=10 -n2 -O --nodelist="+w.node.Name+" "+saves(in, "/tmp/status.sqsh")+" cat")
	if strings.Join(strings.Fields(r.out), " ") != "input input" || r.status != 0 {
		err = errors.Join(err, fmt.Errorf("want the input of both tasks, got %+v", r))
	}
	if n := strings.Count(r.err, "has saved"); n != 1 {
		err = errors.Join(err, fmt.Errorf("want one save of a node, got %d: %s", n, r.err))
	}
	err = errors.Join(err, w.removeSaved())
	r = w.srun(saves(in, "/tmp/never.sqsh")+" --container-workdir=/missing", "true")
	if r.status == 0 || strings.Contains(r.err, "saves the") {
		err = errors.Join(err, fmt.Errorf("want no save where no task has started, got %+v", r))
	}
	return errors.Join(err, w.unsaved("tmp"), w.left())
}

func (w *world) saveWrong() error {
	var err error
	for _, path := range []string{"/tmp/", "/", "./", "../..", "x/."} {
		err = errors.Join(err, w.fails(in+" --container-save="+path, "want the path of a file, not of a directory"))
	}
	if r := w.as(nil, "/usr/bin/sbatch", in, "--container-save=/tmp/", "--wrap=true"); r.status == 0 || !strings.Contains(r.err, "path of a file") {
		err = errors.Join(err, fmt.Errorf("sbatch: %+v", r))
	}
	err = errors.Join(err,
		// before the tasks
		w.fails(in+" --container-save=/tmp", "it is there, and is no file"),
		w.fails(in+" --container-save=/dev/null", "it is there, and is no file"),
		w.fails(in+" --container-save=/missing/x.sqsh", "no such file"),
		w.fails(in+" --container-save=/etc/x.sqsh", "cannot write to /etc"),
	)
	sqfstar := filepath.Join(w.Root, "usr/bin/sqfstar")
	err = errors.Join(err, os.Rename(sqfstar, sqfstar+".away"), w.fails(in+" --container-save=/tmp/x.sqsh", "squashfs-tools"), os.Rename(sqfstar+".away", sqfstar))
	// after them: the file that was there stays
	r := w.srun("", "echo old >/"+little+"/full")
	r2 := w.srun(saves(in, "/"+little+"/full"), "echo it ran")
	if r.status != 0 || r2.status == 0 || r2.out != "it ran\n" || !strings.Contains(r2.err, "cannot save the container: cannot write /srv/little/full: ") {
		err = errors.Join(err, fmt.Errorf("want a step that fails by its save, got %+v, %+v", r, r2))
	}
	return errors.Join(err, w.prints("", "ls -A /"+little+"; cat /"+little+"/full", "full old"), w.unsaved("tmp"), w.left())
}

// slowly has each sqfstar wait before it writes.
func (w *world) slowly() (undo func() error, err error) {
	sqfstar := filepath.Join(w.Root, "usr/bin/sqfstar")
	if err := os.Rename(sqfstar, sqfstar+".real"); err != nil {
		return nil, err
	}
	script := "#!/bin/sh\necho >/tmp/saving\nuntil [ -e /tmp/go ]; do sleep 0.05; done\nexec /usr/bin/sqfstar.real \"$@\"\n"
	return func() error { return os.Rename(sqfstar+".real", sqfstar) }, os.WriteFile(sqfstar, []byte(script), 0o755)
}

func (w *world) saveEnds() (err error) {
	undo, err := w.slowly()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	saving := filepath.Join(w.Root, "tmp/saving")
	for _, c := range []struct {
		name, say string
		end       func() error
		in        string
	}{
		{"scancel", "the save is cancelled, and nothing of it is left", func() error { return errorOf(w.as(nil, "/usr/bin/scancel", "--name=saving")) }, "tmp"},
		{"sqfstar is killed, as by the kernel where memory lacks", "cannot save the container", func() error { return w.killAll("sqfstar") }, "tmp"},
		{"the save is killed", "", func() error { return w.killDescendant("save") }, "tmp"},
		{"the whole step is killed", "", func() error {
			return errorOf(w.as(nil, "/usr/bin/scancel", "--signal=KILL", "--full", "--name=saving"))
		}, little},
	} {
		ended := make(chan result, 1)
		go func() {
			ended <- w.srun(saves(in, "/"+c.in+"/ends.sqsh")+" --job-name=saving", "echo it ran")
		}()
		if failed := native.Within(native.Limit, "the save does not run", func() bool { return exists(saving) }); failed != nil {
			return errors.Join(err, failed)
		}
		began := time.Now()
		err = errors.Join(err, w.inStep(), c.end())
		r := <-ended
		fmt.Printf("  %s: ended in %v\n", c.name, time.Since(began).Round(time.Millisecond))
		if r.status == 0 || !strings.Contains(r.err, c.say) {
			err = errors.Join(err, fmt.Errorf("%s: want a step that fails with %q, got %+v", c.name, c.say, r))
		}
		err = errors.Join(err, os.Remove(saving), w.left(), w.unsaved(c.in), native.Within(native.Limit, "sqfstar is left", func() bool { return !isRunning("sqfstar") }))
	}
	return errors.Join(err, w.prints("", "ls -A /"+little, "full"))
}

// inStep is an error unless what saves is the step's: below its task, so in its cgroup, and the kernel may kill it first.
func (w *world) inStep() error {
	procs, err := procfs.AllProcs()
	for _, p := range procs {
		if comm, failed := p.Comm(); failed != nil || comm != "sqfstar" {
			continue
		}
		score, failed := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.PID))
		if strings.HasPrefix(string(score), "-") {
			failed = errors.Join(failed, fmt.Errorf("sqfstar's oom_score_adj is %s", score))
		}
		save, task := parent(p.PID), parent(parent(p.PID))
		step := parent(task)
		if native.NameOf(save) != "slurmlet-contai" || native.NameOf(task) != "slurmstepd" || native.NameOf(step) != "slurmstepd" {
			failed = errors.Join(failed, fmt.Errorf("sqfstar runs below %s, %s, %s", native.NameOf(save), native.NameOf(task), native.NameOf(step)))
		}
		return errors.Join(err, failed)
	}
	return errors.Join(err, errors.New("sqfstar does not run"))
}

func parent(pid int) int {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return stat.PPID
}

// killDescendant kills slurmlet-container with a verb.
func (w *world) killDescendant(verb string) error {
	procs, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	for _, p := range procs {
		if line, err := p.CmdLine(); err == nil && len(line) > 1 && line[0] == "slurmlet-container" && line[1] == verb {
			return syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("there is no slurmlet-container %s", verb)
}

func (w *world) saveBatch() error {
	if err := w.write("tmp/job", "#!/bin/sh\n#SBATCH --container-image=/"+image+"\n#SBATCH --container-save=batch.sqsh\n#SBATCH --container-writable\n#SBATCH --chdir=/tmp\necho batch >/work/batch\n", 0o755); err != nil {
		return err
	}
	r := w.as(nil, "/usr/bin/sbatch", "--wait", "--mem=10", "--nodelist="+w.node.Name, "--output=/tmp/job.out", "/tmp/job")
	out, err := os.ReadFile(filepath.Join(w.Root, "tmp/job.out"))
	if r.status != 0 || !strings.Contains(string(out), "has saved the container to /tmp/batch.sqsh") {
		err = errors.Join(err, fmt.Errorf("sbatch: %+v, %s", r, out))
	}
	return errors.Join(err, w.prints("--container-image=/tmp/batch.sqsh", "cat /work/batch", "batch"), w.removeSaved(), w.left())
}

// saveOfTwo has two nodes save to one path of a file system that they share, one after the other and both at once.
func (w *world) saveOfTwo() error {
	const saved = "/tmp/two.sqsh"
	two := func(script string) result {
		args := strings.Fields("--mem=10 -N2 -n2 --nodelist=" + w.node.Name + "," + w.second.Name + " " + saves(in, saved))
		return w.as(nil, "/usr/bin/srun", append(args, "/bin/sh", "-c", "echo $SLURMD_NODENAME >/work/node; "+script)...)
	}
	said := func(r result) (err error) {
		for _, n := range []*native.Node{w.node, w.second} {
			if line := "slurmlet: " + n.Name + ": has saved the container to " + saved + ", "; r.status != 0 || !strings.Contains(r.err, line) {
				err = errors.Join(err, fmt.Errorf("want a step that says %q, got %+v", line, r))
			}
		}
		if n := strings.Count(r.err, "slurmlet: each of the step's 2 nodes saves its own container to "+saved); n != 1 {
			err = errors.Join(err, fmt.Errorf("want one line of what nodes do, got %d: %s", n, r.err))
		}
		return err
	}
	// the second node's task ends when the first one's file is there
	r := two("[ $SLURMD_NODENAME = " + w.node.Name + " ] || until [ -e " + saved + " ]; do sleep 0.05; done")
	err := errors.Join(said(r), w.prints("--container-image="+saved, "cat /work/node", w.second.Name), w.removeSaved())
	for range 3 {
		r := two("true")
		err = errors.Join(err, said(r))
		if got := w.srun("--container-image="+saved, "cat /work/node"); got.out != w.node.Name+"\n" && got.out != w.second.Name+"\n" {
			err = errors.Join(err, fmt.Errorf("want the container of one of both nodes, got %+v", got))
		}
		err = errors.Join(err, w.removeSaved()) // of the other's file no part is left
	}
	return errors.Join(err, w.left())
}
