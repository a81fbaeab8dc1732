//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=10
TreeWidth=65533
MinJobAge=3600
MessageTimeout=30
`

// world is a cluster whose slurmctld has an agent. The agent is started again when it ends, as the kubelet does, but
// without a pause.
type world struct {
	*native.Cluster
	full bool

	lock sync.Mutex
	said []string
	// ends counts the containers of slurmctld that have ended.
	ends int
	over bool
}

func (w *world) hear(line string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.said = append(w.said, line)
}

func (w *world) containerEnds() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.ends
}

// begin starts slurmctld's container and the nodes.
func (w *world) begin() error {
	if err := w.control(); err != nil {
		return err
	}
	for _, n := range w.Nodes {
		if err := w.Start(n, "SLURMLET_GRACE_PERIOD=30s"); err != nil {
			return err
		}
	}
	for _, n := range w.Nodes {
		if err := n.AwaitReady(native.Limit); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) control() error {
	if err := w.ControlBySlurmlet("/etc/slurm", w.hear); err != nil {
		return err
	}
	go func(cmd interface{ Wait() error }) {
		_ = cmd.Wait()
		w.lock.Lock()
		w.ends++
		over := w.over
		w.lock.Unlock()
		if !over {
			_ = w.control()
		}
	}(w.Slurmctld)
	return nil
}

// crash kills slurmctld, and returns how long it took until squeue had an answer.
func (w *world) crash() (time.Duration, error) {
	s, err := w.AgentStatus()
	if err != nil {
		return 0, err
	}
	if s.Main == nil {
		return 0, errors.New("there is no slurmctld")
	}
	began := time.Now()
	if err := unix.Kill(s.Main.PID, unix.SIGKILL); err != nil {
		return 0, fmt.Errorf("cannot kill slurmctld: %w", err)
	}
	if err := native.Within(native.Limit, "slurmctld's port is not closed", func() bool { return unix.Kill(s.Main.PID, 0) != nil }); err != nil {
		return 0, err
	}
	// squeue itself tries once a second.
	for connected := false; !connected; {
		conn, err := net.DialTimeout("tcp", native.Address+":6817", time.Second)
		if connected = err == nil; connected {
			_ = conn.Close()
		} else if time.Since(began) > native.Limit {
			return 0, err
		} else {
			<-time.After(5 * time.Millisecond)
		}
	}
	if out, err := w.Command("/usr/bin/squeue", "--noheader").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("squeue: %w: %s", err, out)
	}
	return time.Since(began), nil
}

func (w *world) untilReady() error {
	return w.UntilAgent(native.Limit, "slurmctld is Ready", func(s *agent.Status) bool { return s.State.Serving() })
}

// Close ends the containers.
func (w *world) Close() error {
	w.lock.Lock()
	w.over = true
	w.lock.Unlock()
	if err := native.KillAll(); err != nil {
		return err
	}
	return native.Within(native.Limit, "the file system is in use", func() bool { return unix.Unmount(w.Root, unix.MNT_DETACH) == nil })
}

func (w *world) read(path string) string {
	text, _ := os.ReadFile(filepath.Join(w.Root, path)) // what is not there is empty
	return string(text)
}

// explain tells what was said.
func (w *world) explain() {
	jobs, _ := w.Command("/usr/bin/squeue", "--states=all").CombinedOutput()
	fmt.Println(string(jobs))
	w.lock.Lock()
	defer w.lock.Unlock()
	fmt.Println(strings.Join(w.said, "\n"))
}
