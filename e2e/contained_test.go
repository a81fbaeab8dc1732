//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// contained is a cluster beside the case's own, whose plugstack.conf requires the plugin of containers. slurmctld's pod
// has no such file, as its image has none. The node has the capabilities of the chart's and the chart's seccomp profile.
type contained struct {
	*cluster
	slurmctld, node, login string
	// state is slurmctld's volume, plugstack arguments of the plugin, slurmConf more lines of slurm.conf, and capabilities
	// those that the node has besides.
	state, plugstack, slurmConf string
	capabilities                []string
}

// image makes an image with a shell and what the jobs run.
const image = `cd /srv/image && programs=$(which sh sleep tail) &&
cp -L --parents $programs $(ldd $programs | grep -o '/[^ ]*[.]so[^ ]*' | sort -u) . &&
{ [ -e bin ] || ln -s usr/bin bin; } && mkdir -p tmp proc sys dev`

// containedJobs: a container is of its step, by cgroup v2. Its memory is the step's, and whatever ends it leaves nothing.
func containedJobs(t *testing.T, c *cluster) {
	w := &contained{cluster: c, slurmctld: "slurmctld-2", node: "node-2", login: "login-2", state: "state-2"}
	defer w.start(t)()
	held := w.run(t, w.node, "grep", "-E", "^(NoNewPrivs|Seccomp):", "/proc/1/status")
	assert.Equal(t, []string{"NoNewPrivs:", "1", "Seccomp:", "2"}, strings.Fields(held))
	assert.Contains(t, w.run(t, w.node, "slurmlet-container", "probe"), "directories: yes")

	id := w.submits(t, "exec sleep 1000")
	members := w.run(t, w.node, "sh", "-c",
		`for p in $(pgrep 'slurmlet-contai|^sleep$'); do echo "$(cat /proc/$p/comm)$(cat /proc/$p/cgroup)"; done`)
	for _, name := range []string{"slurmlet-contai", "sleep"} {
		assert.Regexp(t, `(?m)^`+name+`0::/.*/step_batch/user/`, members)
	}
	assert.Len(t, strings.Fields(members), 2, members)
	w.as(t, "alice", w.login, "scancel", id)
	w.leaves(t, id, "CANCELLED")

	id = w.submits(t, "tail /dev/zero")
	w.leaves(t, id, "OUT_OF_MEMORY")

	for _, c := range []struct{ killed, state string }{
		{"slurmlet-contai", ""}, {"^sleep$", "FAILED"}, {"-f slurmstepd:.*[.]batch", "CANCELLED"},
	} {
		id := w.submits(t, "exec sleep 1000")
		w.run(t, w.node, append([]string{"pkill", "-9"}, strings.Fields(c.killed)...)...)
		if c.state == "" { // the task has all that it needs
			w.as(t, "alice", w.login, "scancel", id)
			c.state = "CANCELLED"
		}
		w.leaves(t, id, c.state)
	}
	w.bundles(t)
	w.saves(t)
}

// bundles are in an unprivileged pod whose /proc is masked, and in the step's cgroup: Slurm signals, limits and ends them.
func (w *contained) bundles(t *testing.T) {
	t.Helper()
	w.run(t, w.node, "sh", "-ec", `mkdir -p /srv/image/bundle && cat >/srv/image/bundle/config.json`+" <<'J'\n"+`{"ociVersion": "1.0.0",
"root": {"path": "/srv/image", "readonly": true}, "process": {"cwd": "/", "env": ["PATH=/usr/bin:/bin"]},
"mounts": [{"destination": "/proc", "type": "proc"}, {"destination": "/dev", "type": "tmpfs"}, {"destination": "/tmp", "type": "tmpfs"}],
"linux": {"namespaces": [{"type": "pid"}, {"type": "user"}, {"type": "mount"}], "maskedPaths": ["/proc/keys"]}}`+"\nJ\n")
	bundle := []string{"--container=/srv/image/bundle"}
	said := w.as(t, "alice", w.login, "srun", bundle[0], "--mem=50", "sh", "-c", "exec 2>&1; cd /srv; pwd")
	assert.Contains(t, said, "/srv\n")
	id := w.runs(t, bundle, "n=0; trap 'n=$((n+1))' USR1; until [ $n -gt 0 ]; do sleep 0.1; done; sleep 0.5; exit $n")
	w.as(t, "alice", w.login, "scancel", "--batch", "--signal=USR1", id)
	w.leaves(t, id, "FAILED")
	assert.Contains(t, w.run(t, w.slurmctld, "scontrol", "--oneliner", "show", "job", id), " ExitCode=1:0 ", "the signal came once")
	id = w.runs(t, bundle, "exec sleep 1000")
	w.as(t, "alice", w.login, "scancel", id)
	w.leaves(t, id, "CANCELLED")
	id = w.runs(t, bundle, "tail /dev/zero")
	w.leaves(t, id, "OUT_OF_MEMORY")
	assert.Empty(t, w.run(t, w.node, "ls", "/var/lib/slurmlet/containers/oci"))
}

// saves ends a job by a signal that its script takes, after which the container is saved.
func (w *contained) saves(t *testing.T) {
	t.Helper()
	const file = "/shared/saved.sqsh"
	save := func(name string) []string {
		return []string{"--container-image=/srv/image", "--container-name=" + name, "--container-writable", "--container-save=" + file}
	}
	id := w.runs(t, save("saved"), "trap 'exit 0' TERM; while :; do sleep 0.1; done")
	w.as(t, "alice", w.login, "scancel", "--batch", "--signal=TERM", id)
	w.leaves(t, id, "COMPLETED")
	assert.Equal(t, "hsqs", w.run(t, w.node, "head", "-c", "4", file))

	// one that the job has no memory for leaves the file as it was, and nothing of its own
	before := w.run(t, w.node, "cksum", file)
	w.run(t, w.node, "sh", "-c", "head -c 60000000 /dev/urandom >/srv/image/big")
	id = w.runs(t, save("large"), "trap 'exit 0' TERM; while :; do sleep 0.1; done")
	w.as(t, "alice", w.login, "scancel", "--batch", "--signal=TERM", id)
	w.says(t, "as where memory is short: it takes up to 256 MiB")
	w.leaves(t, id, "OUT_OF_MEMORY")
	assert.Equal(t, before, w.run(t, w.node, "cksum", file))
	assert.NotContains(t, w.run(t, w.node, "ls", "-A", "/shared"), ".slurmlet-save-")
}

// privateJobs: a job's directories are its own in an unprivileged pod, count as its memory, and are gone after it.
func privateJobs(t *testing.T, c *cluster) {
	w := &contained{
		cluster: c, slurmctld: "slurmctld-2", node: "node-2", login: "login-2", state: "state-private",
		plugstack: " private_dirs=/tmp,/dev/shm", slurmConf: "PrologFlags=Contain\n", capabilities: []string{"CAP_SETFCAP"},
	}
	defer w.start(t)()
	probed := w.run(t, w.node, "slurmlet-container", "probe")
	assert.Contains(t, probed, "private_dirs: yes\nprivate_processes: no: private_processes: the kernel mounts no /proc")
	const list = "ls -A /tmp /dev/shm | tr '\n' ' '"
	first := w.starts(t, "for d in /tmp /dev/shm; do echo mine >$d/mine; done; echo up; exec sleep 1000")
	assert.Regexp(t, `(?m)^0::/.*/system$`, w.run(t, w.node, "sh", "-c", "cat /proc/$(pgrep slurmlet-contai)/cgroup"),
		"who holds the job's namespaces is beside its cgroup")
	step := func(user string, options ...string) string {
		return w.as(t, user, w.login, append(append([]string{"srun"}, options...), "--mem=10", "sh", "-c", list+"; stat -c %U /etc /tmp")...)
	}
	assert.Equal(t, "/dev/shm: mine  /tmp: mine root\nroot\n", step("alice", "--overlap", "--jobid="+first))
	assert.NotContains(t, w.run(t, w.node, "sh", "-c", list), "mine")
	w.as(t, "alice", w.login, "scancel", first)
	w.leaves(t, first, "CANCELLED")
	assert.Equal(t, "/dev/shm:  /tmp: root\nroot\n", step("alice"))

	// each of both is within the limit of a directory
	over := w.starts(t, "echo up; for d in /tmp /dev/shm; do head -c 35000000 /dev/zero >$d/big; done; exec sleep 1000")
	w.leaves(t, over, "OUT_OF_MEMORY")
	killed := w.starts(t, "echo up; exec sleep 1000")
	w.run(t, w.node, "pkill", "-9", "slurmlet-contai")
	w.as(t, "alice", w.login, "scancel", killed)
	w.leaves(t, killed, "CANCELLED")
}

// privateProcesses: where jobs have processes of their own, Slurm signals, ends and limits them as ever.
func privateProcesses(t *testing.T, c *cluster) {
	w := &contained{
		cluster: c, slurmctld: "slurmctld-2", node: "node-2", login: "login-2", state: "state-processes",
		plugstack: " private_dirs=/tmp,/dev/shm private_processes=1", slurmConf: "PrologFlags=Contain\n",
		capabilities: []string{"CAP_SYS_ADMIN", "CAP_SYS_CHROOT"},
	}
	defer w.start(t)()
	assert.Contains(t, w.run(t, w.node, "slurmlet-container", "probe"), "private_dirs: yes\nprivate_processes: yes\n")
	assert.Equal(t, "slurmlet-contai\nsh\n",
		w.as(t, "alice", w.login, "srun", "--mem=10", "sh", "-c", "for f in /proc/[0-9]*/comm; do read name <$f && echo $name; done"))
	for script, want := range map[string]string{"exit 7": "FAILED", "kill -9 $$": "FAILED", "tail /dev/zero": "OUT_OF_MEMORY", "true": "COMPLETED"} {
		id := w.starts(t, "echo up; "+script)
		w.leaves(t, id, want)
		if script == "exit 7" {
			assert.Contains(t, w.run(t, w.slurmctld, "scontrol", "--oneliner", "show", "job", id), " ExitCode=7:0 ")
		}
		if script == "kill -9 $$" {
			assert.Contains(t, w.run(t, w.slurmctld, "scontrol", "--oneliner", "show", "job", id), " ExitCode=0:9 ")
		}
	}
	id := w.starts(t, "n=0; trap 'n=$((n+1))' USR1; echo up; until [ $n -gt 0 ]; do sleep 0.1; done; sleep 0.5; exit $n")
	w.as(t, "alice", w.login, "scancel", "--batch", "--signal=USR1", id)
	w.leaves(t, id, "FAILED")
	assert.Contains(t, w.run(t, w.slurmctld, "scontrol", "--oneliner", "show", "job", id), " ExitCode=1:0 ", "the signal came once")
	id = w.starts(t, "trap '' TERM; setsid sleep 1000 & echo up; while :; do sleep 0.1; done")
	w.run(t, w.slurmctld, "scontrol", "suspend", id)
	w.run(t, w.slurmctld, "scontrol", "resume", id)
	w.as(t, "alice", w.login, "scancel", id)
	w.leaves(t, id, "CANCELLED")
}

// starts submits a job without a container, and waits until it has printed "up".
func (w *contained) starts(t *testing.T, script string) (id string) {
	t.Helper()
	id = strings.TrimSpace(w.as(t, "alice", w.login, "sbatch", "--parsable", "--mem=50", "--no-requeue", "--output=/shared/contained.out",
		"--wrap", script))
	w.isUp(t)
	return id
}

// start makes the cluster, and end takes it away.
func (w *contained) start(t *testing.T) (end func()) {
	t.Helper()
	profile, err := os.ReadFile("../charts/slurm/profiles/slurmlet-slurmd.json")
	require.NoError(t, err)
	other := w.Cluster
	other.SlurmConf = strings.ReplaceAll(other.SlurmConf, "SlurmctldHost=slurmctld", "SlurmctldHost="+w.slurmctld) + w.slurmConf
	slurmctld, login, node := other.Slurmctld(), other.Login(), other.Node(2)
	slurmctld.Name, login.Name = w.slurmctld, w.login
	slurmctld.Volumes[len(slurmctld.Volumes)-1].Name = w.state
	slurmctld.Volumes[1].Files["oci.conf"] = sandbox.File{Data: ociConf(t)}
	slurmctld.Volumes[1].Files["plugstack.conf"] = sandbox.File{Data: []byte("required spank_slurmlet.so" + w.plugstack + "\n")}
	node.Seccomp = profile
	node.Capabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}
	node.Capabilities = append(node.Capabilities, w.capabilities...)
	node.Volumes = append(
		node.Volumes, sandbox.Volume{Name: "containers", Path: "/var/lib/slurmlet/containers", Mode: 0o777},
		sandbox.Volume{Name: "image", Path: "/srv/image"},
	)
	squash, err := parts.Squashfuse(t.Context(), t.Logf)
	require.NoError(t, err)
	for name, file := range map[string]string{"sqfstar": "/usr/bin/sqfstar", "lzo": "/usr/lib/x86_64-linux-gnu/liblzo2.so.2"} { // for a save
		node.Volumes = append(node.Volumes, sandbox.Volume{Name: name, Path: file, HostPath: filepath.Join(squash, file)})
	}
	bin, file := filepath.Dir(other.Agent), "spank_slurmlet.so"
	for _, pod := range []*sandbox.PodSpec{&node, &login} {
		pod.Env["SLURMLET_SLURMCTLD"] = w.slurmctld
		pod.Volumes = append(
			pod.Volumes, sandbox.Volume{Name: "plugin", Path: "/usr/lib/x86_64-linux-gnu/slurm-wlm/" + file, HostPath: filepath.Join(bin, file)},
			sandbox.Volume{Name: "program", Path: "/usr/local/bin/slurmlet-container", HostPath: filepath.Join(bin, "slurmlet-container")},
		)
	}
	pods := []sandbox.PodSpec{node, login, slurmctld}
	require.NoError(t, w.CreateAll(t.Context(), pods...))
	w.waitReady(t, w.slurmctld, w.node, w.login)
	accessIs(t, w.cluster, w.node, cgroup.Writable)
	w.run(t, w.node, "sh", "-ec", image)
	return func() {
		for _, pod := range pods {
			assert.NoError(t, w.Delete(t.Context(), pod.Name, grace))
		}
	}
}

// ociConf is the chart's.
func ociConf(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../charts/slurm/templates/_containers.tpl")
	require.NoError(t, err)
	_, from, _ := strings.Cut(string(text), `{{- define "slurm.ociConf" -}}`)
	conf, _, found := strings.Cut(from, "{{- end }}")
	require.True(t, found)
	return []byte(conf)
}

// submits starts a job in a container and waits until its task runs there.
func (w *contained) submits(t *testing.T, script string) (id string) {
	t.Helper()
	return w.runs(t, []string{"--container-image=/srv/image"}, script)
}

// runs is submits for a job with options of its own.
func (w *contained) runs(t *testing.T, options []string, script string) (id string) {
	t.Helper()
	args := append([]string{"sbatch", "--parsable", "--mem=50", "--no-requeue", "--output=/shared/contained.out"}, options...)
	id = strings.TrimSpace(w.as(t, "alice", w.login, append(args, "--wrap", "echo up; "+script)...))
	w.isUp(t)
	return id
}

func (w *contained) isUp(t *testing.T) {
	t.Helper()
	w.says(t, "\nup\n")
}

// says waits until the job's output, with an empty line before it, has a text.
func (w *contained) says(t *testing.T, text string) {
	t.Helper()
	until(t, "the job says "+text, func() (bool, string) {
		said := w.run(t, w.login, "sh", "-c", "cat /shared/contained.out; true")
		if strings.Contains("\n"+said, text) {
			return true, ""
		}
		return false, said + w.run(t, w.slurmctld, "scontrol", "--oneliner", "show", "job") + w.run(t, w.node, "pgrep", "-al", ".")
	})
}

// leaves waits until a job has ended so, and the node has nothing of it: no process, mount and cgroup.
func (w *contained) leaves(t *testing.T, id, state string) {
	t.Helper()
	until(t, "job "+id+" is "+state, func() (bool, string) {
		job := w.run(t, w.slurmctld, "scontrol", "--oneliner", "show", "job", id)
		return strings.Contains(job, " JobState="+state+" "), job
	})
	until(t, "nothing is left of job "+id, func() (bool, string) {
		left := w.run(t, w.node, "sh", "-c", `pgrep -l 'slurmlet-contai|^sleep$|^tail$'; grep -l containers/mnt /proc/[0-9]*/mountinfo 2>/dev/null
find /sys/fs/cgroup -type d -name 'step_*'; true`)
		return left == "", left
	})
	w.run(t, w.login, "rm", "/shared/contained.out")
}
