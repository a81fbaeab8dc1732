//go:build e2e

package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// twoAgents: a pod was deleted by force, and its containers live. The next one on the machine waits for their end.
func (w *world) twoAgents() error {
	if err := w.begin(); err != nil {
		return err
	}
	second := w.Command("/usr/bin/slurmlet", "slurmctld")
	second.Env = append(second.Env, "SLURMLET_CONF_SOURCES=/etc/slurm", "SLURMLET_STATE_DIR=/run/slurmctld/state",
		"SLURMLET_RUN_DIR=/run/second", "SLURMLET_LISTEN=127.0.0.1:8899")
	path := filepath.Join(w.Root, "tmp/second")
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	second.Stdout, second.Stderr = log, log
	if err := second.Start(); err != nil {
		return err
	}
	status := func() (*agent.Status, error) {
		ask := w.Command("/usr/bin/slurmlet", "status", "-o", "json")
		ask.Env = append(ask.Env, "SLURMLET_RUN_DIR=/run/second")
		out, _ := ask.Output() // its exit status says that the agent is not Ready
		s := &agent.Status{}
		return s, json.Unmarshal(out, s)
	}
	until := func(what string, met func(*agent.Status) bool) error {
		var last *agent.Status
		err := native.Within(native.Limit, "not: "+what, func() bool {
			s, err := status()
			if err == nil {
				last = s
			}
			return err == nil && met(s)
		})
		if err != nil && last != nil {
			err = fmt.Errorf("%w: %s, %s", err, last.State, last.Reason)
		}
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, w.read("tmp/second"))
		}
		return err
	}
	host, _ := os.Hostname()
	if err := until("it says who has the state", func(s *agent.Status) bool {
		return s.State == supervisor.Starting && s.Main == nil && strings.Contains(s.Reason, "StateSaveLocation") && strings.Contains(s.Reason, host)
	}); err != nil {
		return err
	}
	if first, err := w.AgentStatus(); err != nil || first.State != supervisor.Ready {
		return fmt.Errorf("the first slurmctld does not serve: %v, %w", first, err)
	}
	// The machine's kernel ends the first container at last.
	first, err := w.AgentStatus()
	if err != nil {
		return err
	}
	w.lock.Lock()
	w.over = true
	w.lock.Unlock()
	if err := errors.Join(w.Slurmctld.Process.Kill(), unix.Kill(first.Main.PID, unix.SIGKILL)); err != nil {
		return err
	}
	began := time.Now()
	if err := until("the second has the state", func(s *agent.Status) bool { return s.State == supervisor.Ready }); err != nil {
		return err
	}
	fmt.Printf("the second slurmctld serves %v after the end of the first\n", time.Since(began).Round(time.Millisecond))
	if text, err := os.ReadFile(filepath.Join(w.Root, "run/slurmctld/state/slurmlet/lock")); err != nil || !strings.Contains(string(text), host) {
		return fmt.Errorf("the lock says %q, %w", text, err)
	}
	return errors.Join(second.Process.Signal(unix.SIGTERM), second.Wait())
}
