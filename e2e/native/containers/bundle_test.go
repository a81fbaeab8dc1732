//go:build e2e

package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// bundleCases are those of Slurm's own --container. The first one runs before the cluster has an oci.conf.
var bundleCases = []testCase{
	{"OCI bundles: without oci.conf a node refuses them", (*world).noRuntime},
	{"OCI bundles: the step's command runs in them", (*world).bundles},
	{"OCI bundles: mounts, devices and what is hidden", (*world).bundleMounts},
	{"OCI bundles: what a user cannot have is refused by its field", (*world).wrongBundles},
	{"OCI bundles: signals, statuses and what is left", (*world).bundleEnds},
}

// ociConf is what the chart writes (charts/slurm/templates/_containers.tpl).
const ociConf = `IgnoreFileConfigJson=true
CreateEnvFile=null
ContainerPath=/var/lib/slurmlet/containers/oci/%j.%s/%t
RunTimeEnvExclude=.
RunTimeRun="PATH=/opt/slurmlet:/usr/local/bin; exec slurmlet-container oci run --bundle='%b' --environment=%e --step=%s"
`

// anyBundle is a bundle as `runc spec --rootless` makes one.
func anyBundle() *specs.Spec {
	return &specs.Spec{
		Version: "1.2.0",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{
			Terminal: true, Args: []string{"sh"}, Cwd: "/work", NoNewPrivileges: true,
			Env:          []string{"PATH=/usr/bin:/bin", "BOTH=bundle", "ONLY=bundle", "SLURM_JOB_ID=7"},
			Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_KILL"}},
			Rlimits:      []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 1024, Soft: 1000}},
		},
		Hostname: "boxed",
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
			{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/sys", Type: "none", Source: "/sys", Options: []string{"rbind", "nosuid", "noexec", "nodev", "ro"}},
		},
		Linux: &specs.Linux{
			UIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: alice, Size: 1}},
			GIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: alice, Size: 1}},
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.UserNamespace},
				{Type: specs.CgroupNamespace},
			},
			MaskedPaths:   []string{"/proc/kcore", "/proc/missing", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/sys", "/proc/missing"},
		},
	}
}

// bundle writes a bundle, and returns srun's option for it.
func (w *world) bundle(name string, change func(*specs.Spec)) (string, error) {
	config := anyBundle()
	if change != nil {
		change(config)
	}
	text, err := json.Marshal(config)
	dir := filepath.Join(w.Root, "srv", name)
	err = errors.Join(err, os.RemoveAll(dir), os.MkdirAll(dir, 0o755), os.Symlink("../image", filepath.Join(dir, "rootfs")),
		os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
	return "--container=/srv/" + name, err
}

func (w *world) noRuntime() error {
	boxed, err := w.bundle("boxed", nil)
	if err != nil {
		return err
	}
	return errors.Join(
		w.fails(boxed, "this cluster has no oci.conf"),
		w.fails("--container=docker://alpine:3", "want the directory of an OCI bundle; for an image: --container-image=alpine:3"),
		w.fails(boxed+" "+in, "want one of both"),
		w.prints("", "echo on", "on"),
	)
}

// awaitRuntime writes oci.conf once, and waits until the node has it.
func (w *world) awaitRuntime() error {
	option, err := w.bundle("boxed", nil)
	if err != nil || exists(filepath.Join(w.Root, "etc/slurm/oci.conf")) {
		return err
	}
	if err := w.write("etc/slurm/oci.conf", ociConf, 0o644); err != nil {
		return err
	}
	if out, err := w.Command("/usr/bin/scontrol", "reconfigure").CombinedOutput(); err != nil {
		return fmt.Errorf("scontrol reconfigure: %w: %s", err, out)
	}
	var r result
	err = native.Within(time.Minute, "the node does not run a bundle", func() bool {
		r = w.srun(option, "true")
		return r.status == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %+v", err, r)
	}
	return nil
}

func (w *world) bundles() error {
	if err := w.awaitRuntime(); err != nil {
		return err
	}
	boxed, err := w.bundle("boxed", nil)
	if err != nil {
		return err
	}
	readonly, err1 := w.bundle("readonly", func(s *specs.Spec) { s.Root.Readonly = true })
	plain, err2 := w.bundle("plain", func(s *specs.Spec) {
		*s = specs.Spec{Version: "1.0.2", Root: &specs.Root{Path: "/srv/image"}}
	})
	other, err3 := w.bundle("other", func(s *specs.Spec) {
		s.Process.User = specs.User{UID: 33, GID: 34}
		s.Linux.UIDMappings, s.Linux.GIDMappings = nil, nil
	})
	if err := w.write("tmp/batch", "#!/bin/sh\ncat /work/here; pwd; hostname\n", 0o755); err != nil {
		return err
	}
	script := func() error {
		r := w.as(nil, "/usr/bin/sbatch", "--mem=10", "--wait", "--nodelist="+w.node.Name, "--output=/tmp/batch.out", boxed, "/tmp/batch")
		out, _ := os.ReadFile(filepath.Join(w.Root, "tmp/batch.out"))
		if r.status != 0 || string(out) != "in the image\n/work\nboxed\n" {
			return fmt.Errorf("sbatch %s: got %q, status %d: %s", boxed, out, r.status, r.err)
		}
		return nil
	}
	return errors.Join(err1, err2, err3,
		w.prints(boxed, "cat /work/here; pwd; id -u; hostname; ls /etc/slurm 2>&1 | grep -c slurm.conf; true", "in the image /work 0 boxed 0"),
		w.prints(boxed, "echo $ONLY $BOTH $KEPT $LANG; [ $SLURM_JOB_ID = 7 ] || echo own", "bundle bundle job C.UTF-8 own"),
		w.prints(boxed, "ulimit -Sn; ulimit -Hn; grep -c NoNewPrivs:.1 /proc/self/status", "1000 1024 1"),
		// the first process of the container is not the program
		w.prints(boxed, "[ $$ -gt 1 ] && set -- /proc/[0-9]* && echo \"$#'s\"", "2's"),
		w.prints(boxed, "touch /work/new && ls /work && rm /work/new", "here new"),
		w.labels(boxed),
		w.prints(readonly, "touch /work/new 2>/dev/null || echo read-only; touch /dev/shm/x && echo memory", "read-only memory"),
		w.prints(plain, "pwd; id -u; echo $BOTH; test -e /dev/shm && echo dev", "/ 1000 job dev"),
		w.prints(other, "id -u; id -g", "33 34"),
		w.bare(plain),
		script(), w.terminal(boxed), w.terminal(other),
		w.left(), w.noSpool(),
	)
}

// labels: each of two tasks is a container. srun prints their lines in the order in which they come.
func (w *world) labels(option string) error {
	r := w.srun(option+" -n2 -O -l", "echo $SLURM_PROCID")
	lines := slices.Sorted(strings.Lines(r.out))
	if r.status != 0 || !slices.Equal(lines, []string{"0: 0\n", "1: 1\n"}) {
		return fmt.Errorf("two tasks of %s: %+v", option, r)
	}
	return nil
}

// terminal has a step's terminal read, and interrupts its program there.
func (w *world) terminal(option string) error {
	ours, theirs, err := pty.Open()
	if err != nil {
		return fmt.Errorf("cannot open a terminal: %w", err)
	}
	defer ours.Close()
	cmd := w.Command("/usr/bin/srun", "--mem=10", "--nodelist="+w.node.Name, "--pty", option, "sh", "-c",
		"n=0; trap 'n=$((n+1))' INT; readlink /proc/self/fd/0; read line; echo [$line]; while [ $n = 0 ]; do sleep 0.1; done; "+
			"sleep 0.3; echo interrupted $n times; exit 7")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/tmp", theirs, theirs, theirs
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: alice, Gid: alice}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return fmt.Errorf("cannot start srun: %w", err)
	}
	hangs := time.AfterFunc(native.Limit, func() { _ = cmd.Process.Kill() })
	defer hangs.Stop()
	var said strings.Builder
	for text, typed := make([]byte, 4096), 0; ; {
		n, failed := ours.Read(text)
		said.Write(text[:n])
		for _, t := range [][2]string{{"/dev/pts/", "words\n"}, {"[words]", "\x03"}}[typed:] {
			if strings.Contains(said.String(), t[0]) {
				typed++
				_, _ = ours.WriteString(t[1])
			}
		}
		if failed != nil { // srun has ended
			break
		}
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 7 || !strings.Contains(said.String(), "interrupted 1 times") {
		return fmt.Errorf("srun --pty %s: status %d, %q", option, status, said.String())
	}
	return nil
}

// bare names a program that the node has elsewhere.
func (w *world) bare(option string) error {
	from, to := filepath.Join(w.Root, image, "usr/bin/seq"), filepath.Join(w.Root, image, "work/seq")
	defer func() { _ = os.Rename(to, from) }()
	if err := os.Rename(from, to); err != nil {
		return err
	}
	r := w.as([]string{"PATH=/usr/bin:/work"}, "/usr/bin/srun", "--mem=10", "--nodelist="+w.node.Name, option, "seq", "2")
	if r.status != 0 || r.out != "1\n2\n" {
		return fmt.Errorf("a program that is elsewhere on the node: %+v", r)
	}
	r = w.as(nil, "/usr/bin/srun", "--mem=10", "--nodelist="+w.node.Name, option, "seq", "2")
	if r.status != 127 || !strings.Contains(r.err, "the container has no seq in PATH=") {
		return fmt.Errorf("a program that the container lacks: %+v", r)
	}
	return nil
}

func (w *world) bundleMounts() error {
	if err := w.awaitRuntime(); err != nil {
		return err
	}
	if err := errors.Join(w.write("srv/data", "of the node\n", 0o644), os.MkdirAll(filepath.Join(w.Root, "srv/boxed/own"), 0o755)); err != nil {
		return err
	}
	mounted, err := w.bundle("mounted", func(s *specs.Spec) {
		s.Mounts = append(s.Mounts,
			specs.Mount{Destination: "/work/deep/data", Type: "bind", Source: "/srv/data", Options: []string{"ro"}},
			specs.Mount{Destination: "/work/home", Source: "/home/alice", Options: []string{"rbind", "rprivate"}},
			specs.Mount{Destination: "/work/own", Type: "none", Source: "own", Options: []string{"bind"}},
			specs.Mount{Destination: "/work/scratch", Type: "tmpfs", Options: []string{"size=1m", "ro"}},
			specs.Mount{Destination: "/link/up", Type: "bind", Source: "/srv/data"},
		)
		s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/fuse", Type: "c"}}
		s.Linux.MaskedPaths = append(s.Linux.MaskedPaths, "/work/here")
		s.Linux.ReadonlyPaths = append(s.Linux.ReadonlyPaths, "/work/own")
	})
	err = errors.Join(err, os.MkdirAll(filepath.Join(w.Root, "srv/mounted/own"), 0o777), os.Chmod(filepath.Join(w.Root, "srv/mounted/own"), 0o777))
	return errors.Join(err,
		w.prints(mounted, "cat /work/deep/data /work/up; touch /work/deep/data 2>/dev/null || echo ro", "of the node of the node ro"),
		w.prints(mounted, "touch /work/home/x && rm /work/home/x && echo home; touch /work/own/x 2>/dev/null || echo protected", "home protected"),
		w.prints(mounted, "touch /work/scratch/x 2>/dev/null || echo ro; test -c /dev/fuse && echo fuse; cat /work/here", "ro fuse"),
		w.prints(mounted, "echo x >/dev/null; ls /dev/ptmx /dev/stdin; test -w /proc/sys/kernel/hostname || echo protected", "/dev/ptmx /dev/stdin protected"),
		w.left(), w.noSpool(),
	)
}

func (w *world) wrongBundles() error {
	if err := w.awaitRuntime(); err != nil {
		return err
	}
	wrong := map[string]func(*specs.Spec){
		`ociVersion: "2.0": want 1.x`:                           func(s *specs.Spec) { s.Version = "2.0" },
		`root.path: "/srv/wrong/nowhere": want a directory`:     func(s *specs.Spec) { s.Root.Path = "nowhere" },
		`hooks.createRuntime: "/bin/true": want none`:           func(s *specs.Spec) { s.Hooks = &specs.Hooks{CreateRuntime: []specs.Hook{{Path: "/bin/true"}}} },
		`linux.seccomp: want none`:                              func(s *specs.Spec) { s.Linux.Seccomp = &specs.LinuxSeccomp{} },
		`linux.uidMappings[0].size: "65536": want 1`:            func(s *specs.Spec) { s.Linux.UIDMappings[0].Size = 65536 },
		`linux.uidMappings[0].hostID: "0": want the job's user`: func(s *specs.Spec) { s.Linux.UIDMappings[0].HostID = 0 },
		`linux.namespaces[0].path: "/proc/1/ns/pid": want none`: func(s *specs.Spec) { s.Linux.Namespaces[0].Path = "/proc/1/ns/pid" },
		`linux.devices[0].path: "/dev/nvidia9": want a device`:  func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/nvidia9"}} },
		`mounts[6].type: "ext4": want bind, tmpfs`:              func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/x", Type: "ext4"}) },
		`mounts[1].options[1]: "strict": want options of mount`: func(s *specs.Spec) { s.Mounts[1].Options[1] = "strict" },
		`mounts[6]: cannot mount /missing on /x: stat /missing:`: func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/x", Type: "bind", Source: "/missing"})
		},
		`process.cwd: "/missing": no such file`:                    func(s *specs.Spec) { s.Process.Cwd = "/missing" },
		`process.rlimits[0].hard: RLIMIT_NOFILE: 9000000000: want`: func(s *specs.Spec) { s.Process.Rlimits[0].Hard = 9_000_000_000 },
		`hostname: "boxed": want none, or uts`:                     func(s *specs.Spec) { s.Linux.Namespaces = s.Linux.Namespaces[3:] },
	}
	var err error
	for _, why := range slices.Sorted(maps.Keys(wrong)) {
		option, failed := w.bundle("wrong", wrong[why])
		err = errors.Join(err, failed, w.fails(option, why))
	}
	return errors.Join(err,
		w.fails("--container=/srv/nowhere", "want the directory of an OCI bundle, with config.json"),
		w.fails("--container=/srv/image", "a directory that is a root file system is --container-image=/srv/image"),
		w.broken(), w.left(), w.noSpool(),
	)
}

// broken is a bundle whose config.json is none.
func (w *world) broken() error {
	option, err := w.bundle("broken", nil)
	return errors.Join(err, w.write("srv/broken/config.json", "{\n", 0o644), w.fails(option, "it is no configuration of an OCI bundle"))
}

// bundleEnds cancels steps with process numbers of their own and without.
func (w *world) bundleEnds() error {
	if err := w.awaitRuntime(); err != nil {
		return err
	}
	err := w.left()
	for _, name := range []string{"boxed", "shared"} {
		option, failed := w.bundle(name, func(s *specs.Spec) {
			if name == "shared" {
				s.Linux.Namespaces = s.Linux.Namespaces[1:]
			}
		})
		err = errors.Join(err, failed)
		for script, status := range map[string]int{"exit 3": 3, "kill -9 $$": 137, "kill -15 $$": 143, "exit 0": 0} {
			if r := w.srun(option, script); r.status != status {
				err = errors.Join(err, fmt.Errorf("%s, %s: want status %d, got %+v", name, script, status, r))
			}
		}
		err = errors.Join(err, w.signalled(name))
		// a program without a handler ends at once, and not after KillWait
		if failed := w.cancelled(option); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, failed))
		}
	}
	return errors.Join(err, w.left(), w.noSpool())
}

// signalled sends a step a signal, which its program must have once, and ends it. (A plain step has SIGTERM twice.)
func (w *world) signalled(name string) error {
	const script = "trap 'echo once >>/work/home/signals' USR1; echo >/work/home/up; while :; do sleep 0.1; done"
	home := filepath.Join(w.Root, "home/alice")
	for _, file := range []string{"up", "signals"} {
		_ = os.Remove(filepath.Join(home, file))
	}
	option, err := w.bundle(name, func(s *specs.Spec) {
		if name == "shared" {
			s.Linux.Namespaces = s.Linux.Namespaces[1:]
		}
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/work/home", Type: "bind", Source: "/home/alice"})
	})
	if err != nil {
		return err
	}
	ended := make(chan result, 1)
	go func() { ended <- w.srun(option+" --job-name=signalled", script) }()
	err = native.Within(native.Limit, "the program does not run", func() bool { return len(ended) > 0 || exists(filepath.Join(home, "up")) })
	if r := w.as(nil, "/usr/bin/scancel", "--name=signalled", "--signal=USR1"); r.status != 0 {
		err = errors.Join(err, errorOf(r))
	}
	read := func() string {
		text, _ := os.ReadFile(filepath.Join(home, "signals"))
		return string(text)
	}
	err = errors.Join(err, native.Within(native.Limit, "the program has no signal", func() bool { return len(ended) > 0 || read() != "" }))
	_ = w.as(nil, "/usr/bin/scancel", "--name=signalled", "--signal=KILL")
	r := <-ended
	if got := read(); got != "once\n" {
		err = errors.Join(err, fmt.Errorf("%s: want SIGUSR1 once, got %q, %+v", name, got, r))
	}
	if r.status == 0 {
		err = errors.Join(err, fmt.Errorf("%s: want a step that is killed, got %+v", name, r))
	}
	return err
}

func (w *world) cancelled(option string) error {
	ended := make(chan result, 1)
	go func() { ended <- w.srun(option+" --job-name=asleep", "echo up; exec sleep 1000") }()
	began := time.Now()
	for {
		select {
		case r := <-ended:
			if r.status == 0 || time.Since(began) > native.Limit {
				return fmt.Errorf("want a step that is cancelled at once, got %+v after %v", r, time.Since(began))
			}
			return nil
		case <-time.After(300 * time.Millisecond):
			_ = w.as(nil, "/usr/bin/scancel", "--name=asleep", "--state=RUNNING")
		}
	}
}

// noSpool is an error unless Slurm's directories of bundles' steps are gone.
func (w *world) noSpool() error {
	spool := filepath.Join(w.Root, store, "oci")
	var left []os.DirEntry
	err := native.Within(20*time.Second, "directories of steps are left", func() bool {
		var failed error
		left, failed = os.ReadDir(spool)
		return failed == nil && len(left) == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, left)
	}
	return nil
}
