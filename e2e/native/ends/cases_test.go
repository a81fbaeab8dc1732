//go:build e2e

package ends

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// cases are what happens while all nodes end.
var cases = []struct {
	name string
	play func(*world) error
}{
	{"many at once are one", (*world).merged},
	{"slurmctld's agent is killed", func(w *world) error { return w.without(unix.SIGKILL) }},
	{"slurmctld's agent hangs", func(w *world) error { return w.without(unix.SIGSTOP) }},
}

// healthy: nothing was wrong, from the first start on an empty StateSaveLocation on, and the status says so.
func (w *world) healthy() error {
	s, err := w.AgentStatus()
	if err != nil {
		return err
	}
	if s.LastError != nil {
		return fmt.Errorf("slurmctld's status has an error of a healthy cluster: %s", s.LastError.Text)
	}
	if w.said("lookup failure for node") == 0 || w.said("Configured MailProg is invalid") == 0 {
		return errors.New("slurmctld has not written the lines that this case is about")
	}
	return nil
}

// merged: slurmctld is asked far fewer times than there are nodes.
func (w *world) merged() error {
	if out, err := w.Command("/usr/bin/sdiag", "--reset").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot reset slurmctld's counts: %w: %s", err, out)
	}
	if err := each(w.Nodes, (*native.Node).Terminate); err != nil {
		return err
	}
	if err := exited(w.idle()); err != nil {
		return err
	}
	if err := waiting(w.busy()); err != nil {
		return err
	}
	if err := w.gate.Open(); err != nil {
		return err
	}
	if err := exited(w.busy()); err != nil {
		return err
	}
	if err := w.gone(); err != nil {
		return err
	}
	asked, err := w.RPCs()
	if err != nil {
		return err
	}
	// A deletion of a record that is gone costs nothing, and proves that it is.
	changes := asked["REQUEST_DELETE_NODE"] + asked["REQUEST_UPDATE_NODE"] - w.said("Unable to find node")
	fmt.Printf("%d nodes, %d with a job: %d REQUEST_DELETE_NODE, %d REQUEST_UPDATE_NODE; commands of slurmctld's agent: %d; of nodes: %v\n",
		nodes, len(w.jobs), asked["REQUEST_DELETE_NODE"], asked["REQUEST_UPDATE_NODE"], w.said("at once"), w.direct())
	if changes > nodes/2 {
		return fmt.Errorf("slurmctld was asked for %d changes of %d nodes", changes, nodes)
	}
	if again, few := w.said("Unable to find node"), w.few(); again > few {
		return fmt.Errorf("%d nodes have deleted their record again, and %d did so with few others", again, few)
	}
	return w.healthy()
}

// without: slurmctld's agent goes when the nodes begin to end. Each of them asks slurmctld itself.
func (w *world) without(signal unix.Signal) error {
	all := w.idle()
	if err := each(all[:len(all)/2], (*native.Node).Terminate); err != nil {
		return err
	}
	if err := w.Slurmctld.Process.Signal(signal); err != nil {
		return fmt.Errorf("cannot signal slurmctld's agent: %w", err)
	}
	if err := each(append(all[len(all)/2:], w.busy()...), (*native.Node).Terminate); err != nil {
		return err
	}
	if err := exited(all); err != nil {
		return err
	}
	if err := w.gate.Open(); err != nil {
		return err
	}
	if err := exited(w.busy()); err != nil {
		return err
	}
	return w.gone()
}

// established counts the connections to the port of slurmctld's agent (proc_pid_net(5), tcp).
func established() (n int) {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(name) // one that is not there has none
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) > 3 && strings.HasSuffix(fields[1], ":2271") && fields[3] == "01" {
				n++
			}
		}
	}
	return n
}
