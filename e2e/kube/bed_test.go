//go:build e2e

package kube

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster"
	"github.com/slurmlet/slurmlet/e2e/testbed/pace"
)

// limit is how long anything may take that a user would wait for, on a machine
// with other work. Kubernetes gives up on a silent node after 50 s, and Slurm
// keeps a job back for 2 minutes whose node has lost its power: with seven times
// as many processes as processors, that took 3:49.
const limit = 8 * time.Minute

// TestKube runs everything, in order, on one bed with one release of the chart.
// A case leaves it as it found it: two nodes, a pod on each, all Ready.
func TestKube(t *testing.T) {
	c := up(t)
	people, values := peoplesValues(t)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"what values files make is taken by the API", dryRun},
		{"a container at its limit is killed alone, and another is resized in place", limits},
		{"images start as the users that they declare", images},
		{"the controller is installed", controller},
		{"the controller is held to its rights", heldToRights},
		{"the chart is installed, and its test passes", install},
		{"the papers' commands work", papersCommands},
		{"kubectl slurm shows, explains and changes", kubectlSlurm},
		{"the chart's PodMonitor leads to every agent", metrics},
		{"a real Prometheus scrapes them", scrapedByPrometheus},
		{"jobs know their limits", jobLimits},
		{"jobs on several nodes find each other by name", rendezvous},
		{"names without DNS", nameless},
		{"a plain image becomes a node and a login pod", injected},
		{"a chart with elastic sets is installed", elastic(elasticInstall)},
		{"an elastic set starts from zero, and goes back", elastic(elasticFromZero)},
		{"an array of 50 from zero", elastic(elasticArray)},
		{"GPUs, a reservation, exclusive nodes and a heterogeneous job from zero", elastic(elasticKinds)},
		{"an elastic pod with a job on it is deleted", elastic(elasticDeleted)},
		{"an elastic pod with a job on it is evicted", elastic(elasticEvicted)},
		{"the image of an elastic pod cannot be pulled", elastic(elasticNoImage)},
		{"an elastic pod finds no machine", elastic(elasticNowhere)},
		{"a quota refuses elastic pods", elastic(elasticQuota)},
		{"kubectl slurm says why elastic pods do not start", elastic(kubectlSlurmElastic)},
		{"elastic pods whose controller is killed before and while it makes them", elastic(elasticControllerKilled)},
		{"a machine with elastic pods is switched off and deleted", elastic(elasticMachineOff)},
		{"rounds from zero to zero", elastic(elasticRounds)},
		{"the elastic sets are uninstalled", elastic(elasticUninstall)},
		{"jobs in containers are installed, on pods without a privilege", contained(containersInstall)},
		{"jobs in containers: limits, images, users", contained(containersHold)},
		{"jobs in containers are uninstalled", contained(containersUninstall)},
		{"a node is resized in place", resize},
		{"a pod with a job on it is deleted", deletePod},
		{"a machine is drained", drain},
		{"a machine is cordoned and tainted", cordon},
		{"kubectl slurm says why nodes get no jobs", kubectlSlurmNodes},
		{"kubectl slurm says why pods do not run", kubectlSlurmPods},
		{"kubectl slurm says that a pod is evicted", kubectlSlurmEvicted},
		{"kubectl slurm says that a machine is lost", kubectlSlurmMachine},
		{"an eviction grants less than the grace period", evict},
		{"a node set is scaled down and up", scale},
		{"a Deployment loses idle pods first", scaleIn},
		{"six nodes are updated under load", roll},
		{"slurmctld is rolled out anew", restartController},
		{"slurm.conf is changed", changeConf},
		{"slurm.conf is changed before the kubelet knows", changeConfAtOnce},
		{"a ConfigMap that was edited by hand is upgraded", halfUpgrade},
		{"an image that does not exist is rolled out, and back", badImage},
		{"a node set is taken away", removeSet},
		{"a kubelet restarts", kubeletRestarts},
		{"a machine is cut off", cable},
		{"a machine loses power", power},
		{"a machine is switched off and deleted", machineDeleted},
		{"another image is rolled out", changeImage},
		{"the chart is uninstalled", uninstallInOrder},
		{"accounting and REST, on the claims of before", accounting(values)},
		{"five people log in, submit, reach their jobs' nodes and are charged", five(people)},
		{"another password reaches MariaDB and slurmdbd", newPassword},
		{"a stranger holds 2,000 half-sent requests on every agent's port", besieged},
		{"these are uninstalled, too", uninstall},
		{"five people of a directory that is off for ten minutes", fiveOfADirectory},
		{"a newer Slurm is refused, taken with leave, and taken back", slurmUpgrade},
		{"the chart is installed with no values at all", bare},
		{"and where Pod Security is restricted", restricted},
		{"cgroups by the capability", capability},
		{"nodes without limits", wholeMachines},
	} {
		if !t.Run(one.name, func(t *testing.T) { one.run(t, c) }) {
			return // the rest would fail for the same reason
		}
	}
}

// cluster is a bed, and what is needed to have the chart on it.
type cluster struct {
	*kubecluster.Bed
	helm    string // the program
	version string // Slurm's, as in 24.11
	// namespace is where kubectl and helm are, empty for default.
	namespace string
}

// up makes a bed with the images of `make images`, and checks afterwards,
// whatever happened, that nothing is left of it.
func up(t *testing.T) *cluster {
	c := &cluster{helm: os.Getenv("HELM"), version: os.Getenv("SLURM")}
	if c.helm == "" || c.version == "" {
		t.Fatal("HELM and SLURM are not set: run make e2e-kube")
	}
	images, err := filepath.Glob(repository("bin/images/*-" + strings.ReplaceAll(c.version, ".", "-") + ".tar"))
	require.NoError(t, err)
	require.NotEmpty(t, images, "make images")
	images = append(images, repository("bin/images/agent.tar"), repository("bin/images/controller.tar"),
		writeRootImage(t, "24.11", databaseImage), writeRootImage(t, c.version, plainImage+c.version))
	c.Bed, err = kubecluster.Up(t.Context(), kubecluster.Options{
		Name: bedName(), Binary: repository("bin/slurmlet-sandbox"), Images: images, With: os.Getpid(), Progress: t.Logf,
	})
	require.NoError(t, err)
	traces := c.Traces()
	// What the chart makes is let in, unless it asks for the capability.
	c.kubectl(t, "label", "namespace", "default", "pod-security.kubernetes.io/enforce=baseline")
	t.Cleanup(func() {
		if t.Failed() {
			c.tell(t)
		}
		require.NoError(t, c.Down())
		require.Empty(t, traces.Left(), "left of Kubernetes")
	})
	return c
}

// bedName is this process' own.
func bedName() string { return fmt.Sprintf("e2e-%d", os.Getpid()) }

// repository is a path in it.
func repository(path string) string {
	dir, _ := os.Getwd()
	return filepath.Join(dir, "..", "..", path)
}

// tell puts what one would look at into the log of a test that has failed.
func (c *cluster) tell(t *testing.T) {
	for _, args := range [][]string{
		{"get", "pods", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "slurmlet.dev/cluster", "--prefix", "--tail", "40"},
		{"logs", "-n", controllerHome, "deployment/" + controllerHome, "--tail", "60"},
	} {
		out, err := c.Kubectl(context.WithoutCancel(t.Context()), args...) // it has ended by now
		t.Log(out, err)
	}
}

func (c *cluster) apply(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	require.NoError(t, c.Apply(t.Context(), strings.ReplaceAll(string(text), "24.11", c.version)))
}

func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	require.NoError(t, err)
	return strings.TrimSpace(out)
}

// field is one value of an object, by its JSON path.
func (c *cluster) field(t *testing.T, object, path string) string {
	t.Helper()
	return c.kubectl(t, "get", object, "-o", "jsonpath={"+path+"}")
}

// follow gives each line that kubectl prints to hear, until the test's end.
func (c *cluster) follow(t *testing.T, hear func(string), args ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, filepath.Join(c.Programs(), "kubectl"), args...)
	command.Env = append(os.Environ(), c.Environment()...)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		stop()
		_ = command.Wait() // it was killed
	})
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			hear(lines.Text())
		}
	}()
}

// until waits for a condition; what it last saw is in the failure.
func until(t *testing.T, what string, met func() (bool, string)) {
	t.Helper()
	started := time.Now()
	for {
		asked := time.Now()
		ok, saw := met()
		if ok {
			t.Logf("%s: after %v", what, time.Since(started).Round(100*time.Millisecond))
			return
		}
		if time.Since(started) > limit {
			require.Fail(t, what+": not within "+limit.String(), saw)
		}
		select {
		case <-t.Context().Done():
			require.Fail(t, what+": the test was ended", saw)
		case <-time.After(pace.Pause(started, asked)):
		}
	}
}
