//go:build e2e

package upgrade

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
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/papers"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

const older, newer = "24.11", "26.05"

const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=10
TreeWidth=65533
MinJobAge=3600
MessageTimeout=30
`

// world is a cluster whose slurmctld is of one version, then of another: each has a root file system, and both have the
// same state. The node stays with the older one.
type world struct {
	*native.Cluster
	roots map[string]string

	lock  sync.Mutex
	lines []string
}

func (w *world) hear(line string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.lines = append(w.lines, line)
}

func (w *world) said() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.lines)
}

// state is StateSaveLocation, and where it is beside the namespaces' root.
const state = "/run/slurmctld/state"

func (w *world) state() string { return filepath.Join(w.roots[older], state) }

// layNewer makes the root file system of the newer slurmctld.
func (w *world) layNewer(lower string) error {
	root := filepath.Join(native.Scratch, "newer")
	w.roots[newer] = root
	if err := native.Layer(root, lower); err != nil {
		return err
	}
	for _, name := range []string{"/etc/slurm", "/etc/hosts", "/etc/nsswitch.conf", "/usr/bin/slurmlet"} {
		if out, err := exec.Command("cp", "-aT", w.Root+name, root+name).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot copy %s: %w: %s", name, err, out)
		}
	}
	if err := os.Mkdir(root+"/run/slurmctld", 0o755); err != nil {
		return err
	}
	return unix.Mount(w.Root+"/run/slurmctld", root+"/run/slurmctld", "", unix.MS_BIND, "")
}

// control starts slurmctld's agent of a version, and waits until slurmctld answers.
func (w *world) control(version string, environ ...string) error {
	w.Root = w.roots[version]
	return w.ControlBySlurmlet("/etc/slurm", w.hear, environ...)
}

func (w *world) stop() error {
	err := w.Slurmctld.Process.Signal(unix.SIGTERM)
	return errors.Join(err, w.Slurmctld.Wait())
}

// refused starts the agent of a version, which must end and say all of that, and must change nothing.
func (w *world) refused(version string, says ...string) error {
	before, err := w.files()
	if err != nil {
		return err
	}
	c := native.Cluster{Root: w.roots[version]}
	cmd := c.Command("/usr/bin/slurmlet", "slurmctld")
	cmd.Env = append(cmd.Env, "SLURMLET_CONF_SOURCES=/etc/slurm", "SLURMLET_STATE_DIR="+state)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != exitcode.Config {
		return fmt.Errorf("the agent of %s exits with %d (%w), not with %d: %s", version, code, err, exitcode.Config, &out)
	}
	for _, text := range says {
		if !strings.Contains(out.String(), text) {
			return fmt.Errorf("the agent of %s does not say %q: %s", version, text, &out)
		}
	}
	after, err := w.files()
	if err == nil && before != after {
		err = fmt.Errorf("the agent of %s has changed the state:\n%s\n%s", version, before, after)
	}
	return err
}

// files lists what slurmctld has saved, with the time of each file's last change.
func (w *world) files() (string, error) {
	out, err := exec.Command("find", w.state(), "-path", w.state()+"/slurmlet", "-prune", "-o", "-type", "f", "-printf", "%P %i %C@ %s\n").CombinedOutput()
	files := strings.Split(string(out), "\n")
	slices.Sort(files)
	return strings.Join(files, "\n"), err
}

// holds says that a job is in a state, by the commands of slurmctld's version.
func (w *world) holds(job, want string) error {
	var last []byte
	err := native.Within(native.Limit, "a job has another state", func() bool {
		last, _ = w.Command("/usr/bin/squeue", "--noheader", "--states=all", "--format=%T", "--jobs="+job).CombinedOutput()
		return strings.TrimSpace(string(last)) == want
	})
	if err != nil {
		return fmt.Errorf("%w: job %s is %s, not %s", err, job, last, want)
	}
	return nil
}

func (w *world) submitHeld() (string, error) {
	cmd := w.Command("/usr/bin/sbatch", "--parsable", "--hold", "--chdir=/", "--output=/dev/null")
	cmd.Stdin = strings.NewReader("#!/bin/sh\ntrue\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot submit a job: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// wayBack are the lines of docs/run/upgrade.md that put a snapshot back, for a shell without a cluster.
func wayBack(snapshot string) (string, error) {
	p, err := papers.Read("../../..", "docs/run/upgrade.md")
	if err != nil {
		return "", err
	}
	for _, b := range p.Blocks {
		if strings.Contains(b.Text, "slurmlet/aside") {
			text := regexp.MustCompile(`24\.11-to-26\.05-\w+`).ReplaceAllLiteralString(b.Text, filepath.Base(snapshot))
			return "kubectl() { case \"$*\" in *' -- '*) while test \"$1\" != --; do shift; done; shift; \"$@\";; esac; }\nset -eu\n" +
				strings.ReplaceAll(text, "/var/spool/slurmctld/state", state), nil
		}
	}
	return "", errors.New("docs/run/upgrade.md has no block that puts a snapshot back")
}

func (w *world) play() error {
	if err := w.control(older); err != nil {
		return err
	}
	n := w.Nodes[0]
	if err := errors.Join(w.Start(n, "SLURMLET_GRACE_PERIOD=30s"), n.AwaitReady(native.Limit)); err != nil {
		return err
	}
	gate, err := w.NewGate()
	if err != nil {
		return err
	}
	runs, err := w.Submit(n.Name)
	if err != nil {
		return err
	}
	held, err := w.submitHeld()
	if err != nil {
		return err
	}
	both := func() error { return errors.Join(w.holds(runs, "RUNNING"), w.holds(held, "PENDING")) }
	if err := errors.Join(both(), w.stop()); err != nil {
		return err
	}

	if err := w.refused(newer, "is of Slurm 24.11, and this is Slurm 26.05", "slurm.upgrade=true (SLURMLET_UPGRADE=on)", "image.slurm=24.11"); err != nil {
		return err
	}
	if err := errors.Join(w.control(older), both(), w.stop()); err != nil {
		return fmt.Errorf("the older one, after a refusal: %w", err)
	}
	if err := errors.Join(w.control(newer, "SLURMLET_UPGRADE=on"), both()); err != nil {
		return fmt.Errorf("the newer one, with leave: %w", err)
	}
	kept, _ := filepath.Glob(w.state() + "/slurmlet/before-upgrades/*")
	if len(kept) != 1 {
		return fmt.Errorf("the state of before is not kept once: %v", kept)
	}
	snapshot := filepath.Join(state, "slurmlet/before-upgrades", filepath.Base(kept[0]))
	later, err := w.submitHeld()
	if err = errors.Join(err, w.stop()); err != nil {
		return err
	}
	// Leave that is taken back ends nothing: there is nothing to convert any more.
	if err := errors.Join(w.control(newer), both(), w.holds(later, "PENDING"), w.stop()); err != nil {
		return fmt.Errorf("the newer one, without leave: %w", err)
	}

	if err := w.refused(older, "is of Slurm 26.05, and this is Slurm 24.11, which cannot read it", snapshot); err != nil {
		return err
	}
	lines, err := wayBack(snapshot)
	if err != nil {
		return err
	}
	if out, err := w.Command("/bin/sh", "-c", lines).CombinedOutput(); err != nil {
		return fmt.Errorf("the way back: %w: %s", err, out)
	}
	if err := errors.Join(w.control(older), both()); err != nil {
		return fmt.Errorf("the older one, on the snapshot: %w", err)
	}
	next, err := w.submitHeld()
	if err != nil || next == later {
		return fmt.Errorf("id %s is given twice, %w", next, err)
	}
	if err := w.UntilAgent(native.Limit, "slurmctld is Ready", func(s *agent.Status) bool { return s.State.Serving() }); err != nil {
		return err
	}
	return errors.Join(gate.Open(), w.holds(runs, "COMPLETED"))
}
