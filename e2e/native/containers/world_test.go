//go:build e2e

package containers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=10
TreeWidth=65533
MinJobAge=3600
MaxJobCount=20000
KillWait=5
PartitionName=` + crowded + ` Nodes=ALL OverSubscribe=FORCE:16 State=UP
`

// crowded is a partition in which a job has no CPU of its own: none waits for slurmctld's next look at those that wait.
const crowded = "crowded"

// alice is the user of the root file systems.
const alice = 1000

// world is a cluster of three nodes with the plugin. The one in between may make no namespaces of users.
type world struct {
	*native.Cluster
	node, second *native.Node
	said         []string
	registry     *site
	// environ is more for each command.
	environ []string
	// steps is how many steps one case runs, and for how long; 0: a few. The cases' names contain only.
	steps    int
	stepsFor time.Duration
	only     string
}

// The places of what a site installs, and of what the cases use, in the cluster's root.
const (
	plugins = "opt/slurmlet"
	store   = "var/lib/slurmlet/containers"
	image   = "srv/image"
	// imageCache is less than two of the registry's images
	imageCache = "1M"
	// squashed is the image as a file
	squashed = "srv/image.sqsh"
)

func (w *world) begin(s settings) error {
	w.node.OwnRoot, w.second.OwnRoot = true, true
	if err := os.MkdirAll(filepath.Join(w.Root, plugins), 0o755); err != nil {
		return err
	}
	for from, to := range map[string]string{
		"spank_slurmlet.so": filepath.Join(plugins, "spank_slurmlet.so"), "slurmlet-container": "usr/local/bin/slurmlet-container",
		"slurmlet-import": "usr/local/bin/slurmlet-import",
	} {
		data, err := os.ReadFile(filepath.Join(s.Bin, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(w.Root, to), data, 0o755)
		}
		if err != nil {
			return err
		}
	}
	if err := w.write("etc/slurm/plugstack.conf", "required /"+plugins+"/spank_slurmlet.so image_cache="+imageCache+"\n", 0o644); err != nil {
		return err
	}
	if err := w.addSquashfuse(s.Squashfuse); err != nil {
		return err
	}
	if err := w.makeImage(); err != nil {
		return err
	}
	// a volume, as a pod has one there: everybody may write to an emptyDir
	volume := filepath.Join(w.Root, store)
	if err := errors.Join(os.MkdirAll(volume, 0o755), unix.Mount("tmpfs", volume, "tmpfs", 0, "mode=777")); err != nil {
		return err
	}
	queues := filepath.Join(w.Root, "dev/mqueue")
	if err := errors.Join(os.MkdirAll(queues, 0o755), unix.Mount("mqueue", queues, "mqueue", 0, "")); err != nil {
		return err
	}
	small := filepath.Join(w.Root, little)
	if err := errors.Join(os.MkdirAll(small, 0o755), unix.Mount("tmpfs", small, "tmpfs", 0, "mode=1777,size=64k")); err != nil {
		return err
	}
	if err := w.Control(func(line string) { w.said = append(w.said, line) }); err != nil {
		return err
	}
	for _, n := range w.Nodes {
		if err := w.Start(n, "SLURMLET_CPU_LIMIT=2000"); err != nil {
			return err
		}
	}
	var err error
	for _, n := range w.Nodes {
		err = errors.Join(err, n.AwaitReady(time.Minute))
	}
	return err
}

// addSquashfuse installs squashfuse, and gives the node a /dev/fuse that its users can open, as a device plugin does.
func (w *world) addSquashfuse(dir string) error {
	if out, err := exec.Command("cp", "-a", dir+"/usr", w.Root).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot install squashfuse: %w: %s", err, out)
	}
	device := filepath.Join(native.Scratch, "fuse")
	return errors.Join(
		unix.Mknod(device, unix.S_IFCHR, int(unix.Mkdev(10, 229))), os.Chmod(device, 0o666),
		unix.Mount(device, filepath.Join(w.Root, "dev/fuse"), "", unix.MS_BIND, ""),
	)
}

func (w *world) write(path, text string, mode os.FileMode) error {
	return os.WriteFile(filepath.Join(w.Root, path), []byte(text), mode)
}

// programs are what is in the image, with their libraries.
var programs = []string{
	"sh", "cat", "id", "env", "sleep", "touch", "ls", "readlink", "pwd", "chown", "rm", "grep", "mkdir", "true", "ln", "chgrp", "seq",
	"mount", "stat", "hostname", "ipcmk", "ipcs", "bash",
}

// library is a path of ldd's.
var library = regexp.MustCompile(`/[^ ]+\.so[^ ]*`)

// makeImage makes an image as `enroot create` unpacks one: its files are the user's, and enroot's own are in /etc.
func (w *world) makeImage() error {
	copied := map[string]bool{}
	for _, name := range programs {
		copied["/usr/bin/"+name] = true
		libraries, err := w.Command("/usr/bin/ldd", "/usr/bin/"+name).Output()
		if err != nil {
			return fmt.Errorf("cannot list what %s needs: %w", name, err)
		}
		for _, path := range library.FindAllString(string(libraries), -1) {
			copied[path] = true
		}
	}
	for path := range copied {
		data, err := os.ReadFile(filepath.Join(w.Root, path))
		if err != nil {
			return err
		}
		to := filepath.Join(w.Root, image, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755)); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(w.Root, image, "bin")); err != nil {
		if err := os.Symlink("usr/bin", filepath.Join(w.Root, image, "bin")); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		"etc/environment": "ONLY=image\nBOTH=image\nKEPT=image\nPYTORCH_VERSION=2\nPATH=/usr/bin:/bin\n",
		"etc/passwd":      "root:x:0:0:root:/root:/bin/sh\n",
		"etc/group":       "root:x:0:\n",
		"etc/rc":          "mkdir -p \"/work\" 2> /dev/null\ncd \"/work\" && unset OLDPWD || exit 1\necho entered >&2\nexport ENTERED=yes SAW=${ASKED-none}\nexec \"$@\"\n",
		"work/here":       "in the image\n",
		"root/.keep":      "",
	} {
		to := filepath.Join(w.Root, image, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	if err := os.Symlink("/work", filepath.Join(w.Root, image, "link")); err != nil {
		return err
	}
	// squashfuse gives all files to the user, whose they are in the directory
	for _, command := range [][]string{
		{"/usr/bin/mksquashfs", "/" + image, "/" + squashed, "-quiet", "-no-progress", "-comp", "lz4"},
		{"/bin/chown", "-R", "1000:1000", "/" + image},
	} {
		if out, err := w.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot make the image: %w: %s", err, out)
		}
	}
	return nil
}

// result is what a command of Slurm's has printed, and its status.
type result struct {
	out, err string
	status   int
	took     time.Duration
}

// as runs a command beside slurmctld as alice, with more environment.
func (w *world) as(environ []string, path string, args ...string) result {
	cmd := w.Command(path, args...)
	cmd.Dir = "/tmp"
	cmd.Env = append(cmd.Env, append([]string{"HOME=/home/alice", "USER=alice", "LANG=C.UTF-8", "BOTH=job", "KEPT=job"}, slices.Concat(w.environ, environ)...)...)
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: alice, Gid: alice}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	hangs := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
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

// srun runs a step whose words are separated by spaces, and a shell's script in it.
func (w *world) srun(options, script string, environ ...string) result {
	args := append([]string{"--mem=10", "--nodelist=" + w.node.Name}, strings.Fields(options)...) // the last list holds
	return w.as(environ, "/usr/bin/srun", append(args, "/bin/sh", "-c", script)...)
}

// prints is an error unless a step succeeds and prints just these words.
func (w *world) prints(options, script, want string, environ ...string) error {
	r := w.srun(options, script, environ...)
	if got := strings.Join(strings.Fields(r.out), " "); r.status != 0 || got != want {
		return fmt.Errorf("srun %s, %s: want %q, got %q, status %d, and on stderr:\n%s", options, script, want, got, r.status, r.err)
	}
	return nil
}

// fails is an error unless a step fails, prints nothing, and says why.
func (w *world) fails(options, why string, environ ...string) error {
	r := w.srun(options, "echo it ran", environ...)
	if r.status == 0 || r.out != "" || !strings.Contains(r.err, why) {
		return fmt.Errorf("srun %s: want a failure with %q, got status %d, %q, and on stderr:\n%s", options, why, r.status, r.out, r.err)
	}
	return nil
}

// left is an error unless no process of a container's is left within a time, and no mount on the node.
func (w *world) left() error {
	return native.Within(native.Limit, "processes of a container are left", func() bool {
		procs, err := procfs.AllProcs()
		if err != nil {
			return false
		}
		for _, p := range procs {
			if name, err := p.Comm(); err == nil && (strings.HasPrefix(name, "slurmlet-cont") || name == "squashfuse_ll") {
				return false
			}
		}
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", w.node.PID()))
		return err == nil && !strings.Contains(string(mounts), store+"/")
	})
}

func (w *world) explained(err error) error {
	log := w.node.Log()
	return fmt.Errorf("%w\nthe node's last lines:\n%s", err, strings.Join(log[max(0, len(log)-8):], "\n"))
}

// killAll kills the processes of a name, as proc_pid_comm(5) has it, that run in these namespaces.
func (w *world) killAll(name string) error {
	procs, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	killed := 0
	for _, p := range procs {
		if comm, err := p.Comm(); err == nil && comm == name && syscall.Kill(p.PID, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		return fmt.Errorf("there is no process %s", name)
	}
	return nil
}
