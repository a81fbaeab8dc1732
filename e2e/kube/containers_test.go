//go:build e2e

package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sandbox "github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/registry"
)

// The namespace of a release with jobs in containers, and its nodes: the second one has /dev/fuse.
const (
	containersHome = "containers"
	plainNode      = "slurm-cpu-0"
	fuseNode       = "slurm-fuse-0"
)

// The users of testdata/containers.yaml.
const (
	ida = "2001"
	jan = "2002"
)

// contained runs a case in the namespace of jobs in containers.
func contained(run func(*testing.T, *cluster)) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		there := &cluster{c.Bed, c.helm, c.version, containersHome}
		t.Cleanup(func() {
			if t.Failed() {
				there.tell(t)
			}
		})
		run(t, there)
	}
}

// profile is what each machine must have for pods that may make namespaces, without a privilege.
const profile = "/var/lib/kubelet/seccomp/profiles/slurmlet-slurmd.json"

// containersInstall: pods wait for the machines' profile, and need nothing else. A user's step runs in a directory.
func containersInstall(t *testing.T, c *cluster) {
	c.kubectl(t, "create", "namespace", containersHome)
	c.kubectl(t, "label", "namespace", containersHome, "pod-security.kubernetes.io/enforce=baseline")
	c.containersInstall(t, "")
	for _, pod := range []string{plainNode, fuseNode} {
		until(t, pod+" waits for the profile", func() (bool, string) {
			saw, err := c.Kubectl(t.Context(), "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].state.waiting}")
			return err == nil && strings.Contains(saw, "CreateContainerError") && strings.Contains(saw, "profiles/slurmlet-slurmd.json"), saw
		})
	}
	c.bringProfile(t)
	c.idle(t, plainNode)
	c.idle(t, fuseNode)
	held := c.kubectl(t, "exec", plainNode, "--", "grep", "-E", "^(NoNewPrivs|Seccomp|CapBnd):", "/proc/1/status")
	assert.Equal(t, []string{"CapBnd:", "00000000000000eb", "NoNewPrivs:", "1", "Seccomp:", "2"}, strings.Fields(held))
	assert.NotContains(t, c.field(t, "pod/"+plainNode, ".spec.volumes"), "hostPath")
	for node, can := range map[string]string{
		plainNode: "can be made of directories, and not of squashfs files and registries' images: a squashfs file needs /dev/fuse in the node's pod",
		fuseNode:  "can be made of directories, squashfs files and registries' images\n",
	} {
		assert.Contains(t, c.kubectl(t, "exec", node, "--", "slurmlet", "status"), can)
		set := strings.Split(node, "-")[1]
		assert.Equal(t, "containers,"+set+" containers,"+set, c.ask(t, "sinfo -h -N -p all -n "+node+" -o '%f %b'"), "available and active features")
	}
	assert.Equal(t, fuseNode, c.slurm(t, "srun --constraint='containers&fuse' hostname"))
	for _, node := range []string{plainNode, fuseNode} {
		c.kubectl(t, "exec", node, "--", "sh", "-ec", makeImage)
	}
	assert.Equal(t, "2001 in-the-image", c.contains(t, ida, plainNode, "--container-image=/srv/image", "echo $(id -u) $(cat /work/here)"))
	assert.Equal(t, "0 in-the-image", c.contains(t, ida, fuseNode, "--container-image=./image.sqsh --chdir=/srv --container-remap-root",
		"echo $(id -u) $(cat /work/here)"))
}

// containersInstall installs the chart with a pod's privileges changed, and does not wait.
func (c *cluster) containersInstall(t *testing.T, set string) {
	t.Helper()
	c.runHelm(t, "install", release, chart, "-f", "values.yaml", "-f", "testdata/containers.yaml", "--set", "image.slurm="+c.version, "--set", set)
}

// bringProfile puts the chart's profile onto each machine, as a site's own tools do.
func (c *cluster) bringProfile(t *testing.T) {
	t.Helper()
	for _, node := range c.Nodes() {
		text, err := os.Open(chart + "/profiles/slurmlet-slurmd.json")
		require.NoError(t, err)
		defer text.Close()
		code, err := c.Attach(t.Context(), node, sandbox.Streams{Stdin: text, Stdout: io.Discard, Stderr: os.Stderr},
			"sh", "-c", "mkdir -p ${0%/*} && cat >$0", profile)
		require.NoError(t, err)
		require.Zero(t, code)
	}
}

// makeImage makes an image as a directory, and as a file, with what the steps run. A node of another image lacks squashfs-tools.
const makeImage = makeDirectory + `
mksquashfs . /srv/image.sqsh -quiet -no-progress -comp lz4
chmod 644 /srv/image.sqsh`

const makeDirectory = `mkdir -p /srv/image && cd /srv/image && mkdir -p tmp proc sys dev work
programs=$(which sh id cat sleep tail ls readlink touch)
cp -L --parents $programs $(ldd $programs | grep -o '/[^ ]*[.]so[^ ]*' | sort -u) .
[ -e bin ] || ln -s usr/bin bin
echo in-the-image >work/here`

// as runs a script as a user where users work.
func (c *cluster) as(t *testing.T, uid, script string) (string, error) {
	t.Helper()
	out, err := c.Kubectl(t.Context(), "exec", "slurm-login-0", "--", "setpriv", "--reuid="+uid, "--regid="+uid, "--groups=3000",
		"env", "HOME=/tmp", "ENROOT_ALLOW_HTTP=y", "sh", "-c", "cd /tmp && "+script)
	return strings.TrimSpace(out), err
}

// srun is a step of a user's on a node.
func srun(node, options, script string) string {
	return fmt.Sprintf("timeout 120 srun --mem=60 -w %s %s sh -c '%s'", node, options, script)
}

// contains is what a user's step prints.
func (c *cluster) contains(t *testing.T, uid, node, options, script string) string {
	t.Helper()
	saw, err := c.as(t, uid, srun(node, options, script))
	require.NoError(t, err, options)
	return saw
}

// refuses says that a user's step does not run, and why.
func (c *cluster) refuses(t *testing.T, uid, node, options, why string) {
	t.Helper()
	saw, err := c.as(t, uid, srun(node, options, "echo it ran")+" 2>&1 || echo refused")
	require.NoError(t, err)
	assert.Contains(t, saw, why)
	assert.NotContains(t, saw, "it ran")
}

// containersHold: what a pod lacks is told, limits hold, a cancel leaves nothing, and users are apart.
func containersHold(t *testing.T, c *cluster) {
	t.Run("an install without either privilege is refused", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), c.helm, "install", "other", chart, "-f", "values.yaml", "--set", "jobContainers.enabled=true", "-n", containersHome)
		cmd.Env = append(os.Environ(), c.Environment()...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "set jobContainers.seccompProfile, or set cgroup.access=capability")
	})
	t.Run("a squashfs file without /dev/fuse", func(t *testing.T) {
		saw := c.kubectl(t, "exec", plainNode, "--", "slurmlet-container", "probe")
		assert.Contains(t, saw, "directories: yes")
		assert.Contains(t, saw, "squashfs files: no: a squashfs file needs /dev/fuse in the node's pod")
		c.refuses(t, ida, plainNode, "--container-image=/srv/image.sqsh", "a squashfs file needs /dev/fuse in the node's pod")
	})
	t.Run("/dev/fuse by a device plugin", func(t *testing.T) {
		// Of private directories the probe says what they would need.
		saw := c.kubectl(t, "exec", fuseNode, "--", "slurmlet-container", "probe")
		assert.True(t, strings.HasPrefix(saw, "directories: yes\nsquashfs files: yes"), saw)
	})
	t.Run("an image of a registry", func(t *testing.T) { c.pulls(t) })
	t.Run("a step over its memory is ended alone", func(t *testing.T) {
		before := c.restarts(t)
		saw, err := c.as(t, ida, srun(plainNode, "--container-image=/srv/image", "tail /dev/zero")+" 2>&1 || true")
		require.NoError(t, err)
		assert.Contains(t, saw, "Out Of Memory")
		assert.Equal(t, before, c.restarts(t), "the containers live on")
		c.nothingLeft(t, plainNode)
	})
	t.Run("a cancel leaves nothing", func(t *testing.T) {
		for _, node := range []string{plainNode, fuseNode} {
			id := c.holds(t, node, map[string]string{plainNode: "/srv/image", fuseNode: "/srv/image.sqsh"}[node])
			_, err := c.as(t, ida, "scancel "+id)
			require.NoError(t, err)
			c.nothingLeft(t, node)
		}
	})
	t.Run("a user is outside of another one's container", func(t *testing.T) { c.apart(t) })
	t.Run("an image that knows nothing of slurmlet", func(t *testing.T) { c.injectedContains(t) })
}

// injectedContains: the webhook brings what a node and a login pod of a plain image need.
func (c *cluster) injectedContains(t *testing.T) {
	t.Helper()
	const node = "plain-node"
	text, err := os.ReadFile("testdata/contained.yaml")
	require.NoError(t, err)
	_, err = c.KubectlOn(t.Context(), strings.ReplaceAll(string(text), "24.11", c.version), "apply", "-f", "-")
	require.NoError(t, err)
	c.idle(t, node)
	c.kubectl(t, "wait", "--for=condition=Ready", "pod/plain-node", "pod/plain-login", "--timeout", limit.String())
	for pod, more := range map[string]string{node: makeDirectory, "plain-login": ""} {
		c.kubectl(t, "exec", pod, "-c", "slurm", "--", "sh", "-ec", "useradd -u "+ida+" ida\n"+more)
	}
	assert.Equal(t, "containers", c.ask(t, "sinfo -h -N -p all -n "+node+" -o %f"))
	assert.Contains(t, c.kubectl(t, "exec", node, "-c", "slurm", "--", "/opt/slurmlet/slurmlet", "status"),
		"can be made of directories, and not of squashfs files and registries' images: a squashfs file needs squashfuse_ll on the node (Debian's package squashfuse)")
	assert.Equal(t, ida+" in-the-image", c.contains(t, ida, node, "--container-image=/srv/image", "echo $(id -u) $(cat /work/here)"))
	saw := c.kubectl(t, "exec", "plain-login", "-c", "slurm", "--", "setpriv", "--reuid="+ida, "--regid="+ida, "--clear-groups",
		"srun", "--mem=60", "--chdir=/tmp", "-w", plainNode+","+node, "-N2", "--container-image=/srv/image", "cat", "/work/here")
	assert.Equal(t, []string{"in-the-image", "in-the-image"}, strings.Fields(saw))
	c.kubectl(t, "delete", "pod", "plain-node", "plain-login", "--timeout", limit.String())
	c.gone(t, node)
}

// holds starts a job of ida's in a container, and returns its number when its task runs there.
func (c *cluster) holds(t *testing.T, node, image string) string {
	t.Helper()
	id, err := c.as(t, ida, fmt.Sprintf("sbatch --parsable --mem=60 -w %s --output=/tmp/%%j.out --container-image=%s --container-writable --container-name=hers "+
		"--wrap 'echo secret >/secret; echo up; exec sleep 1000'", node, image))
	require.NoError(t, err)
	until(t, "job "+id+" runs in its container", func() (bool, string) {
		saw, err := c.Kubectl(t.Context(), "exec", node, "--", "cat", "/tmp/"+id+".out")
		return err == nil && strings.HasPrefix(saw, "up"), saw
	})
	return id
}

// nothingLeft waits until a node has nothing of a step: no process, no mount and no cgroup.
func (c *cluster) nothingLeft(t *testing.T, node string) {
	t.Helper()
	until(t, "nothing is left on "+node, func() (bool, string) {
		left := c.kubectl(t, "exec", node, "--", "sh", "-c", `pgrep -l 'slurmlet-contai|squashfuse|^sleep$|^tail$'
grep -l containers/mnt /proc/[0-9]*/mountinfo 2>/dev/null
find /sys/fs/cgroup -type d -name 'step_*'; true`)
		return left == "", left
	})
}

// apart: jan has a container on the node where ida's runs, and reaches nothing of hers.
func (c *cluster) apart(t *testing.T) {
	t.Helper()
	id := c.holds(t, fuseNode, "/srv/image.sqsh")
	defer func() {
		_, err := c.as(t, ida, "scancel "+id)
		assert.NoError(t, err)
		c.nothingLeft(t, fuseNode)
	}()
	pids := strings.Fields(c.kubectl(t, "exec", fuseNode, "--", "pgrep", "-u", ida, "sleep|slurmlet-contai|squashfuse"))
	require.Len(t, pids, 3, "the task, the holder and squashfuse")
	var script strings.Builder
	for _, pid := range pids {
		fmt.Fprintf(&script, "kill -0 %[1]s; kill -9 %[1]s; ls /proc/%[1]s/root/; readlink -v /proc/%[1]s/ns/mnt; ls /proc/%[1]s/fd; cat /proc/%[1]s/environ; ", pid)
	}
	script.WriteString("ls /var/lib/slurmlet/containers/2001 /var/lib/slurmlet/containers/images/2001; touch /var/lib/slurmlet/containers/mine; true")
	const everywhere = "--container-image=/srv/image --container-mounts=/var/lib/slurmlet/containers"
	for _, options := range []string{"", everywhere, everywhere + " --container-remap-root"} {
		saw, err := c.as(t, jan, srun(fuseNode, options, script.String())+" 2>/tmp/refused; grep -ciE \"(not permitted|denied)\" /tmp/refused; rm /tmp/refused")
		require.NoError(t, err)
		// six of each process, both directories, and the node's own
		assert.Equal(t, "21", saw, options)
	}
	assert.Equal(t, "RUNNING", job{c, id}.is(t, "JobState"))
	c.refuses(t, jan, fuseNode, "--container-name=hers", "there is none on this node")
}

// pulls: a node without /dev/fuse says so before it pulls. One that has it pulls once, for this user alone.
func (c *cluster) pulls(t *testing.T) {
	t.Helper()
	program := os.Getenv("DISTRIBUTION")
	require.NotEmpty(t, program, "DISTRIBUTION is not set: run make e2e-kube")
	there, err := registry.StartIn(t.Context(), program, t.TempDir(), c.Network(), fabric.Gateway)
	require.NoError(t, err)
	defer there.Stop()
	image := there.Address + "/team/app:1"
	c.tagImage(t, image)
	option := "--container-image=" + image
	c.refuses(t, ida, plainNode, option, "the node keeps it as a squashfs file: a squashfs file needs /dev/fuse in the node's pod")

	const script, want = "echo $(id -u) $(cat /work/here)", " in-the-image"
	saw, err := c.as(t, ida, srun(fuseNode, option, script)+" 2>&1")
	require.NoError(t, err)
	assert.Regexp(t, `(?s)slurm-fuse-0: pulls .* has .*/team/app:1 after .*2001`+want, saw)
	assert.Equal(t, ida+want, c.contains(t, ida, fuseNode, option, script))
	assert.Contains(t, c.contains(t, ida, fuseNode, "", "slurmlet-container list"), "/team/app:1")
	assert.Empty(t, c.contains(t, jan, fuseNode, "", "slurmlet-container list"))
	c.refuses(t, jan, fuseNode, "--container-image=$(echo /var/lib/slurmlet/containers/images/2001/*.sqsh)", "ermission denied")
	there.Stop()
	saw, err = c.as(t, ida, srun(fuseNode, option, script)+" 2>&1")
	require.NoError(t, err)
	assert.Contains(t, saw, ida+want, "the image is on the node")
}

// tagImage gives the directory of makeImage a name in a registry on the bed's network.
func (c *cluster) tagImage(t *testing.T, to string) {
	t.Helper()
	text, err := c.Kubectl(t.Context(), "exec", plainNode, "--", "tar", "-C", "/srv/image", "-c", ".")
	require.NoError(t, err)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	image, err = mutate.ConfigFile(image, config)
	require.NoError(t, err)
	ref, err := name.ParseReference(to, name.Insecure)
	require.NoError(t, err)
	bed := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return c.Dial(ctx, address) }}
	defer bed.CloseIdleConnections()
	require.NoError(t, remote.Write(ref, image, remote.WithTransport(bed), remote.WithContext(t.Context())))
}

// containersUninstall: nothing is left in the namespace, which goes.
func containersUninstall(t *testing.T, c *cluster) {
	c.kubectl(t, "scale", "--replicas=0", "statefulset/slurm-cpu", "statefulset/slurm-fuse")
	c.kubectl(t, "wait", "--for=delete", "pod", "-l", "slurmlet.dev/role=slurmd", "--timeout", limit.String())
	c.runHelm(t, "uninstall", release, "--wait", "--timeout", limit.String())
	c.kubectl(t, "delete", "namespace", containersHome, "--timeout", limit.String())
}
