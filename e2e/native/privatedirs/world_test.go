//go:build e2e

package privatedirs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const slurmConf = `SlurmctldParameters=enable_configless
PrologFlags=Contain
MaxNodeCount=10
TreeWidth=65533
MinJobAge=3600
KillWait=2
`

// Two users of the node's.
const (
	alice = 1000
	bob   = 1001
)

// The capabilities that the chart gives slurmd, and what it adds where jobs have directories of their own.
const (
	chartHas  = "-all,+chown,+dac_override,+fowner,+kill,+setgid,+setuid"
	chartAdds = ",+setfcap"
)

type world struct {
	*native.Cluster
	// capable has all capabilities, unprivileged those of the chart's, and poor less.
	capable, unprivileged, poor *native.Node
}

// The places of what a site installs, and of what the cases use, in the cluster's root.
const (
	plugins = "usr/lib/x86_64-linux-gnu/slurm-wlm"
	store   = "var/lib/slurmlet/containers"
	image   = "srv/image"
	// shared is a directory that jobs and the cases see.
	shared = "srv/shared"
)

const (
	dirsAlone = "required spank_slurmlet.so private_dirs=/tmp,/var/tmp,/dev/shm\n"
	processes = "required spank_slurmlet.so private_dirs=/tmp,/var/tmp,/dev/shm private_processes=1\n"
)

func (w *world) begin(s settings) error {
	for from, to := range map[string]string{
		"spank_slurmlet.so": filepath.Join(plugins, "spank_slurmlet.so"), "slurmlet-container": "usr/local/bin/slurmlet-container",
	} {
		data, err := os.ReadFile(filepath.Join(s.Bin, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(w.Root, to), data, 0o755)
		}
		if err != nil {
			return err
		}
	}
	passwd, err := os.OpenFile(filepath.Join(w.Root, "etc/passwd"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(passwd, "bob:x:%d:%d:bob:/tmp:/bin/sh\n", bob, bob)
	volume := filepath.Join(w.Root, store)
	err = errors.Join(
		passwd.Close(), w.write("etc/slurm/plugstack.conf", dirsAlone), os.MkdirAll(filepath.Join(w.Root, shared), 0o777),
		os.Chmod(filepath.Join(w.Root, shared), 0o777), os.MkdirAll(volume, 0o755), unix.Mount("tmpfs", volume, "tmpfs", 0, "mode=777"),
	)
	if err != nil {
		return err
	}
	if err := w.Control(func(string) {}); err != nil {
		return err
	}
	w.unprivileged.Capabilities, w.poor.Capabilities = chartHas+chartAdds, chartHas
	for _, n := range w.Nodes {
		n.OwnRoot = true
		if err := w.Start(n, "SLURMLET_CPU_LIMIT=4000"); err != nil {
			return err
		}
	}
	for _, n := range w.Nodes {
		if err := n.AwaitReady(time.Minute); err != nil {
			return err
		}
	}
	if r := w.as(0, "/bin/sh", "-c", makeImage); r.status != 0 {
		return fmt.Errorf("cannot make an image: %s", r.err)
	}
	return nil
}

func (w *world) write(path, text string) error {
	return os.WriteFile(filepath.Join(w.Root, path), []byte(text), 0o644)
}

// makeImage makes an image with a shell and what the cases run.
const makeImage = `mkdir -p /srv/image && cd /srv/image && programs=$(which sh cat ls id grep sleep) &&
cp -L --parents $programs $(ldd $programs | grep -o '/[^ ]*[.]so[^ ]*' | sort -u) . &&
{ [ -e bin ] || ln -s usr/bin bin; } && mkdir -p tmp proc sys dev && echo in the image >here`

// enter runs a command in a node's mount namespace.
func (w *world) enter(n *native.Node, script string) ([]byte, error) {
	return exec.Command("nsenter", "-t", fmt.Sprint(n.PID()), "-m", "/bin/sh", "-c", script).CombinedOutput()
}

// result is how a command has ended.
type result struct {
	out, err string
	status   int
	took     time.Duration
}

// as runs a command beside slurmctld as a user.
func (w *world) as(uid uint32, path string, args ...string) result {
	cmd := w.Command(path, args...)
	cmd.Dir = "/" + shared
	cmd.Env = append(cmd.Env, "HOME=/", "LANG=C.UTF-8")
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{uid, 100}}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	hangs := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	hangs.Stop()
	r := result{out: out.String(), err: said.String(), took: time.Since(began)}
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		r.status = exit.ExitCode()
	} else if err != nil {
		r.status, r.err = -1, err.Error()
	}
	return r
}

// srun runs a shell's script in a job of a user's on a node, with options whose words are separated by spaces.
func (w *world) srun(uid uint32, n *native.Node, options, script string) result {
	args := append([]string{"--mem=10", "--overlap", "--nodelist=" + n.Name}, strings.Fields(options)...)
	return w.as(uid, "/usr/bin/srun", append(args, "/bin/sh", "-c", script)...)
}

// prints is an error unless a step succeeds and prints just these words.
func (w *world) prints(uid uint32, n *native.Node, options, script, want string) error {
	r := w.srun(uid, n, options, script)
	if got := strings.Join(strings.Fields(r.out), " "); r.status != 0 || got != want {
		return fmt.Errorf("%s, srun %s, %s: want %q, got %q, status %d, and on stderr:\n%s", n.Name, options, script, want, got, r.status, r.err)
	}
	return nil
}

// fails is an error unless a step fails, prints nothing, and says why.
func (w *world) fails(n *native.Node, options, why string) error {
	r := w.srun(alice, n, options, "echo it ran")
	if r.status == 0 || r.out != "" || !strings.Contains(r.err, why) {
		return fmt.Errorf("%s, srun %s: want a failure with %q, got status %d, %q, and on stderr:\n%s", n.Name, options, why, r.status, r.out, r.err)
	}
	return nil
}

// submits starts a job of alice's, and waits until its script has run to its last command, which waits.
func (w *world) submits(n *native.Node, script string) (id string, err error) {
	up := filepath.Join(w.Root, shared, "up")
	_ = os.Remove(up)
	r := w.as(alice, "/usr/bin/sbatch", "--parsable", "--mem=10", "--no-requeue", "--nodelist="+n.Name, "--output=/"+shared+"/out", "--open-mode=append",
		"--job-name=held", "--wrap", script+"; echo $$ >/"+shared+"/up; exec sleep 300")
	id = strings.TrimSpace(r.out)
	if r.status != 0 {
		return "", fmt.Errorf("sbatch: status %d: %s", r.status, r.err)
	}
	return id, native.Within(native.Limit, "job "+id+" does not run", func() bool {
		said, _ := os.ReadFile(up)
		return len(said) > 0 && w.runs("sleep 300")
	})
}

// runs says whether there is a process of this command line.
func (w *world) runs(words string) bool {
	procs, err := procfs.AllProcs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(procs, func(p procfs.Proc) bool {
		line, err := p.CmdLine()
		return err == nil && strings.Join(line, " ") == words
	})
}

func (w *world) cancels(ids ...string) error {
	if r := w.as(0, "/usr/bin/scancel", ids...); r.status != 0 {
		return fmt.Errorf("scancel: %s", r.err)
	}
	return w.left()
}

// left is an error unless nothing is left of any job within a time: no process, no state and no mount on the nodes.
func (w *world) left() error {
	var found string
	err := native.Within(native.Limit, "something is left", func() bool {
		found = w.leftover()
		return found == ""
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, found)
	}
	return nil
}

func (w *world) leftover() string {
	procs, err := procfs.AllProcs()
	if err != nil {
		return err.Error()
	}
	for _, p := range procs {
		if name, err := p.Comm(); err == nil && (strings.HasPrefix(name, "slurmlet-cont") || name == "sleep" || name == "slurmstepd") {
			words, _ := p.CmdLine()
			if text := strings.Join(words, " "); text != "" && !strings.Contains(text, "infinity") {
				return fmt.Sprintf("process %d %s", p.PID, text)
			}
		}
	}
	jobs, _ := os.ReadDir(filepath.Join(w.Root, store, "jobs"))
	for _, e := range jobs {
		if e.IsDir() {
			return "the state of job " + e.Name()
		}
	}
	for _, n := range w.Nodes {
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", n.PID()))
		if err != nil || strings.Contains(string(mounts), " /dev/shm rw,nosuid,nodev,relatime ") && strings.Count(string(mounts), " /dev/shm ") > 1 {
			return n.Name + " has a job's mount"
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (w *world) explained(err error) error {
	var text strings.Builder
	for _, n := range w.Nodes {
		log := n.Log()
		fmt.Fprintf(&text, "%s's last lines:\n%s\n", n.Name, strings.Join(log[max(0, len(log)-8):], "\n"))
	}
	return fmt.Errorf("%w\n%s", err, text.String())
}

// killAll kills the processes whose command line contains a text.
func (w *world) killAll(text string) error {
	procs, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	killed := 0
	for _, p := range procs {
		words, err := p.CmdLine()
		if err == nil && strings.Contains(strings.Join(words, " "), text) && syscall.Kill(p.PID, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		return fmt.Errorf("there is no process %s", text)
	}
	return nil
}
