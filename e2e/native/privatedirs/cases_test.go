//go:build e2e

package privatedirs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

type testCase struct {
	name string
	play func(w *world) error
}

var cases = []testCase{
	{"a job's directories are its own, for all of its steps, and gone after it", both((*world).ownDirs)},
	{"users, groups, owners and root are in them who they are outside", both((*world).users)},
	{"sbcast reaches the node's directories, and srun's input the job's", both((*world).broadcasts)},
	{"where a node cannot make them, the job fails and says why", (*world).closed},
	{"whatever is killed, nothing is left", both((*world).kills)},
	{"a step in a container has its job's directories", both((*world).contains)},
	{"a job's processes are its own, and its /proc shows no more than the node's", (*world).ownProcesses},
	{"tasks end, and are signalled, as without processes of their own", (*world).signals},
	{"a job's end ends what its processes have left", (*world).daemons},
	{"a node whose masked /proc cannot be had again says so", (*world).masked},
	{"starts cost little more", (*world).costs},
}

// both plays a case on the node with all capabilities, and on that with the chart's.
func both(play func(w *world, n *native.Node) error) func(w *world) error {
	return func(w *world) error { return errors.Join(play(w, w.capable), play(w, w.unprivileged)) }
}

func (w *world) ownDirs(n *native.Node) error {
	const list = "ls -A /tmp /var/tmp /dev/shm"
	const nothing = "/dev/shm: /tmp: /var/tmp:"
	if err := w.write("tmp/of-the-node", "node\n"); err != nil {
		return err
	}
	first, err := w.submits(n, "for d in /tmp /var/tmp /dev/shm; do echo mine >$d/of-$SLURM_JOB_ID; done")
	if err != nil {
		return err
	}
	second, err := w.submits(n, list+" >/"+shared+"/seen")
	if err != nil {
		return err
	}
	file := "of-" + first
	err = errors.Join(
		w.prints(alice, n, "--jobid="+first, list, "/dev/shm: "+file+" /tmp: "+file+" /var/tmp: "+file),
		w.prints(alice, n, "--jobid="+first+" -n2 -O", "cat /tmp/"+file, "mine mine"),
		w.prints(alice, n, "--jobid="+second, list, nothing),
	)
	// the node has two CPUs
	if r := w.as(alice, "/usr/bin/scancel", second); r.status != 0 {
		err = errors.Join(err, fmt.Errorf("scancel: %s", r.err))
	}
	err = errors.Join(err,
		w.prints(bob, n, "", list, nothing),
		w.prints(bob, n, "", "stat -c %a:%u /tmp /dev/shm; cat /srv/shared/seen", "1777:0 1777:0 "+nothing),
		w.prints(alice, n, "--jobid="+first, "stat -f -c %T /tmp", "tmpfs"),
		w.cancels(first),
	)
	for _, dir := range []string{"tmp", "var/tmp", "dev/shm"} {
		if exists(w.Root + "/" + dir + "/" + file) {
			err = errors.Join(err, fmt.Errorf("%s is in the node's /%s", file, dir))
		}
	}
	return errors.Join(err, w.prints(alice, n, "", list, nothing))
}

// broadcasts are slurmd's own: it asks plugins of Slurm's alone for the job's namespaces. docs/run/job-containers.md says so,
// and names the other way.
func (w *world) broadcasts(n *native.Node) error {
	if err := w.write(shared+"/file", "of the submission\n"); err != nil {
		return err
	}
	id, err := w.submits(n, "true")
	if err != nil {
		return err
	}
	for _, to := range []string{"/tmp/cast", "/" + shared + "/cast"} {
		if r := w.as(alice, "/usr/bin/sbcast", "--jobid="+id, "/"+shared+"/file", to); r.status != 0 {
			err = errors.Join(err, fmt.Errorf("%s: sbcast to %s: %+v", n.Name, to, r))
		}
	}
	cast := filepath.Join(w.Root, "tmp/cast")
	return errors.Join(err,
		w.prints(alice, n, "--jobid="+id, "ls /tmp; cat /"+shared+"/cast", "of the submission"),
		w.prints(alice, n, "--jobid="+id+" --ntasks=1 --input=/"+shared+"/file", "cat >/tmp/sent", ""),
		w.prints(alice, n, "--jobid="+id, "cat /tmp/sent", "of the submission"),
		os.Remove(cast), os.Remove(filepath.Join(w.Root, shared, "cast")), os.Remove(filepath.Join(w.Root, shared, "file")),
		w.cancels(id))
}

func (w *world) users(n *native.Node) error {
	return errors.Join(
		w.prints(alice, n, "", "id -u; id -un; stat -c %U:%G /etc /srv/shared", "1000 alice root:root root:root"),
		w.prints(alice, n, "", "touch /tmp/x && stat -c %U:%G /tmp/x", "alice:alice"),
		w.prints(0, n, "", "id -u; touch /tmp/x && stat -c %U /tmp/x", "0 root"),
		// no capability, and none to be had
		w.prints(alice, n, "", "grep -E '^Cap(Prm|Eff|Inh|Amb):' /proc/self/status | grep -vc 0000000000000000; true", "0"),
		w.prints(alice, n, "", "umount /tmp 2>/dev/null || echo no; chown 0 /etc/passwd 2>/dev/null || echo no; nsenter -t $PPID -U -m true 2>/dev/null || echo no", "no no no"),
		w.prints(alice, n, "--chdir=/srv", "pwd", "/srv"),
		w.left(),
	)
}

func (w *world) closed() error {
	const why = "the job has no directories of its own on this node: slurmd lacks CAP_SETFCAP"
	err := errors.Join(w.fails(w.poor, "", why), w.fails(w.poor, "--ntasks=2", why))
	if r := w.as(0, "/usr/bin/scontrol", "show", "node", w.poor.Name); !strings.Contains(r.out, "State=IDLE") {
		err = errors.Join(err, fmt.Errorf("the node is not idle: %s", r.out))
	}
	// it becomes a node's whose jobs have an extern step that has ended
	id, failed := w.submits(w.capable, "true")
	if failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(err,
		w.killExtern(id),
		native.Within(native.Limit, "the holder is there", func() bool { return !w.holds(id) }),
		w.fails(w.capable, "--jobid="+id, "slurm.conf needs PrologFlags=Contain), or has ended"),
		w.cancels(id),
	)
}

// holds says whether a job has its state.
func (w *world) holds(id string) bool { return exists(w.Root + "/" + store + "/jobs/" + id) }

// killed are the processes that a job may lose, by their command lines, in which %s is the job.
var killed = []string{"hold-private", "slurmstepd: [%s.batch", "slurmstepd: [%s.extern", "sleep 300", "/usr/sbin/slurmd"}

// killOne kills one of them.
func (w *world) killOne(text, id string) error {
	if strings.Contains(text, "extern") {
		return w.killExtern(id)
	}
	return w.killAll(strings.ReplaceAll(text, "%s", id))
}

func (w *world) kills(n *native.Node) error {
	var err error
	for _, text := range killed {
		id, failed := w.submits(n, "echo kept >/tmp/kept")
		if failed != nil {
			return errors.Join(err, failed)
		}
		err = errors.Join(err, w.killOne(text, id))
		if text == "/usr/sbin/slurmd" {
			err = errors.Join(err, w.keeps("sleep 300", "/tmp/kept"))
		}
		if strings.Contains(text, "batch") { // its task is Slurm's to find
			err = errors.Join(err, w.killAll("sleep 300"))
		}
		if failed := w.cancels(id); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s killed: %w", text, failed))
		}
	}
	return errors.Join(err, w.prints(alice, n, "", "ls -A /tmp", ""))
}

// keeps is an error unless a process sees a file.
func (w *world) keeps(words, path string) error {
	procs, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	for _, p := range procs {
		if line, err := p.CmdLine(); err == nil && strings.Join(line, " ") == words {
			_, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", p.PID, path))
			return err
		}
	}
	return fmt.Errorf("there is no process %s", words)
}

// killExtern kills the slurmstepd of a job's extern step, and then its process, which is Slurm's to find.
func (w *world) killExtern(id string) error {
	err := w.killAll("slurmstepd: [" + id + ".extern")
	_ = w.killAll("sleep 100000000") // Slurm 26.05 has none
	return err
}

const in = "--container-image=/" + image

func (w *world) contains(n *native.Node) error {
	id, err := w.submits(n, "echo kept >/tmp/kept; echo kept >/dev/shm/kept")
	if err != nil {
		return err
	}
	return errors.Join(
		w.prints(alice, n, in+" --jobid="+id, "cat /tmp/kept /dev/shm/kept /here; echo new >/tmp/new", "kept kept in the image"),
		w.prints(alice, n, in+" --jobid="+id+" --container-remap-root", "echo root >>/tmp/new", ""),
		w.prints(alice, n, "--jobid="+id, "cat /tmp/new", "new root"),
		w.prints(bob, n, in, "ls -A /tmp /dev/shm; id -u", "/dev/shm: /tmp: 1001"),
		w.cancels(id),
	)
}

// sees is an error unless a task sees processes of these names, which are sorted, and of no others.
func (w *world) sees(uid uint32, n *native.Node, options string, want ...string) error {
	r := w.srun(uid, n, options, "for f in /proc/[0-9]*/comm; do read name <$f && echo $name; done")
	got := strings.Fields(r.out)
	slices.Sort(got)
	if got = slices.Compact(got); r.status != 0 || !slices.Equal(got, want) {
		return fmt.Errorf("%s, srun %s: want processes %q, got %q, status %d: %s", n.Name, options, want, got, r.status, r.err)
	}
	return nil
}

// useProcesses changes plugstack.conf, and hides a file of each node's /proc as a pod's runtime does.
func (w *world) useProcesses() error {
	for _, n := range []*native.Node{w.capable, w.unprivileged} {
		out, err := w.enter(n, "mount --bind /dev/null /proc/version")
		if err != nil {
			return fmt.Errorf("cannot hide /proc/version: %w: %s", err, out)
		}
	}
	return w.use(processes)
}

// use changes plugstack.conf, and waits until both nodes have it.
func (w *world) use(plugstack string) error {
	if err := w.write("etc/slurm/plugstack.conf", plugstack); err != nil {
		return err
	}
	if r := w.as(0, "/usr/bin/scontrol", "reconfigure"); r.status != 0 {
		return fmt.Errorf("scontrol reconfigure: %s", r.err)
	}
	for _, n := range []*native.Node{w.capable, w.unprivileged} {
		if err := native.Within(native.Limit, n.Name+" has no new plugstack.conf", func() bool {
			out, err := w.enter(n, "cat /run/slurm/conf/plugstack.conf")
			return err == nil && string(out) == plugstack
		}); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) ownProcesses() error {
	if err := w.useProcesses(); err != nil {
		return err
	}
	n := w.capable
	id, err := w.submits(n, "echo mine >/tmp/mine")
	if err != nil {
		return err
	}
	return errors.Join(
		w.sees(bob, n, "", "sh", "slurmlet-contai"),
		w.sees(alice, n, "", "sh", "slurmlet-contai"),
		w.sees(alice, n, "--jobid="+id, "sh", "sleep", "slurmlet-contai"),
		w.prints(alice, n, "--jobid="+id, "cat /tmp/mine", "mine"),
		w.prints(alice, n, "--jobid="+id+" -n2 -O", "[ $(readlink /proc/self/ns/pid) = $(readlink /proc/1/ns/pid 2>/dev/null || readlink /proc/$$/ns/pid) ] && echo same", "same same"),
		w.prints(alice, n, "", "[ $SLURM_TASK_PID = $$ ] && cat /proc/$$/comm; stat -c %t:%T /proc/version; head -c1 /proc/self/environ >/dev/null; nproc >/dev/null", "sh 1:3"),
		w.prints(alice, n, in, "cat /here; cat /proc/[0-9]*/comm | grep -c slurmd; true", "in the image 0"),
		w.prints(alice, n, in+" --container-name=kept --container-writable", "echo x >/kept", ""),
		w.prints(alice, n, "--container-name=kept", "cat /kept", "x"),
		w.prints(0, n, "", "id -u", "0"),
		w.cancels(id),
		w.joins(n),
	)
}

// joins has steps of one job join a container, and one of another job be refused, for which its holder has no number.
func (w *world) joins(n *native.Node) error {
	id, err := w.submits(n, "srun --overlap --mem=10 --container-writable --container-name=kept sh -c 'echo >/kept-runs; exec sleep 200' >/dev/null 2>&1 & true")
	if err != nil {
		return err
	}
	runs := filepath.Join(w.Root, store, fmt.Sprint(alice), "kept/upper/kept-runs")
	err = native.Within(native.Limit, "the container does not run", func() bool { return exists(runs) })
	return errors.Join(err,
		w.prints(alice, n, "--jobid="+id+" --container-name=kept:exec", "cat /kept", "x"),
		w.fails(n, "--container-name=kept", "the container kept runs in another job on this node"),
		w.cancels(id),
	)
}

func (w *world) signals() error {
	n := w.capable
	var err error
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137, "kill -TERM $$": 143, "true": 0} {
		if r := w.srun(alice, n, "", script); r.status != want {
			err = errors.Join(err, fmt.Errorf("%s: want status %d, got %d: %s", script, want, r.status, r.err))
		}
	}
	const up = "echo >/" + shared + "/up; "
	for _, c := range []struct{ script, signal, want string }{
		{"n=0; trap 'n=$((n+1))' USR1; " + up + "until [ $n -gt 0 ]; do sleep 0.05; done; sleep 0.5; echo $n", "USR1", "1"},
		{"trap 'echo ended; exit 0' TERM; " + up + "sleep 300 & wait", "TERM", "ended"},
		{"trap '' TERM; " + up + "while :; do sleep 0.1; done", "", ""},
	} {
		ended, failed := w.held(n, c.script)
		if failed != nil {
			return errors.Join(err, failed)
		}
		args := []string{"--name=held"}
		if c.signal != "" {
			args = append(args, "--signal="+c.signal)
		}
		w.as(alice, "/usr/bin/scancel", args...)
		r := <-ended
		if strings.TrimSpace(r.out) != c.want {
			err = errors.Join(err, fmt.Errorf("%s: want %q, got %+v", c.script, c.want, r))
		}
		err = errors.Join(err, w.left())
	}
	r := w.as(alice, "/usr/bin/script", "-qec", "/usr/bin/srun --mem=10 --nodelist="+n.Name+" --pty /bin/sh -c 'tty; ps -o pgid=,tpgid=,sid= -p $$ 2>/dev/null; stty size >/dev/null && echo sized'", "/dev/null")
	if !strings.Contains(r.out, "/dev/pts/") || !strings.Contains(r.out, "sized") {
		err = errors.Join(err, fmt.Errorf("want a terminal, got %+v", r))
	}
	return errors.Join(err, w.left())
}

// held runs a step of alice's, whose script says by a file that it runs.
func (w *world) held(n *native.Node, script string) (ended chan result, err error) {
	up := filepath.Join(w.Root, shared, "up")
	_ = os.Remove(up)
	ended = make(chan result, 1)
	go func() { ended <- w.srun(alice, n, "--job-name=held", script) }()
	return ended, native.Within(native.Limit, "the step does not run", func() bool { return exists(up) })
}

func (w *world) daemons() error {
	n := w.capable
	if err := errors.Join(
		w.prints(alice, n, "", "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo on", "on"), w.left(),
	); err != nil {
		return err
	}
	var err error
	for _, text := range killed {
		id, failed := w.submits(n, "true")
		if failed != nil {
			return errors.Join(err, failed)
		}
		err = errors.Join(err, w.killOne(text, id))
		if failed := w.cancels(id); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s killed: %w", text, failed))
		}
	}
	return err
}

func (w *world) masked() error {
	return errors.Join(
		w.fails(w.unprivileged, "", "private_processes: the kernel mounts no /proc in a namespace of users while the pod's own /proc is masked"),
		w.prints(alice, w.capable, "", "echo on", "on"),
	)
}

// costs tells how long starts take in one run, of a job and of a step in one, without and with what is a job's own. All of
// them have an extern step.
func (w *world) costs() error {
	for _, c := range []struct{ what, plugstack string }{
		{"nothing of its own", "required spank_slurmlet.so\n"}, {"directories", dirsAlone}, {"directories and processes", processes},
	} {
		if err := w.use(c.plugstack); err != nil {
			return err
		}
		for _, n := range []*native.Node{w.capable, w.unprivileged} {
			if n == w.unprivileged && c.plugstack == processes {
				continue // it has none
			}
			id, err := w.submits(n, "true")
			if err != nil {
				return err
			}
			job, least, err := w.took("--nodelist=" + n.Name)
			step, leastStep, failed := w.took("--overlap", "--jobid="+id)
			if err = errors.Join(err, failed, w.cancels(id)); err != nil {
				return err
			}
			fmt.Printf("  %s, %s: median of srun true %v, in a job %v; the least %v and %v\n", n.Name, c.what, job, step, least, leastStep)
		}
	}
	return nil
}

// took runs a step of no work several times.
func (w *world) took(options ...string) (median, least time.Duration, err error) {
	const runs = 9
	var all []time.Duration
	for range runs {
		r := w.as(alice, "/usr/bin/srun", append(options, "--mem=10", "/bin/true")...)
		if r.status != 0 {
			return 0, 0, fmt.Errorf("srun %v: status %d: %s", options, r.status, r.err)
		}
		all = append(all, r.took.Round(time.Millisecond))
	}
	slices.Sort(all)
	return all[runs/2], all[0], nil
}
