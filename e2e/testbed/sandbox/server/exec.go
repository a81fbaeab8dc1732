package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// moves is how often a command is begun anew because PID 1 of its pod was moving to another cgroup.
const moves = 5

// exec runs a command in a pod.
func (s *server) exec(ctx context.Context, c remote.Command, args []string) (int, error) {
	var how pod.Exec
	if err := json.Unmarshal([]byte(args[1]), &how); err != nil {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	if c.Terminal != nil {
		how.TTY, how.Env = true, append(how.Env, "TERM="+c.Terminal.Term)
	}
	for left := moves; ; left-- {
		code, err := s.execOnce(ctx, c, args[0], how, args[2:])
		if left == 0 || !pod.Moved(err) {
			return code, err
		}
	}
}

func (s *server) execOnce(ctx context.Context, c remote.Command, name string, how pod.Exec, args []string) (int, error) {
	cmd, err := s.kubelet.Command(ctx, name, how, args)
	if err != nil {
		return 0, err
	}
	return c.Attach(cmd)
}

// shell runs a command beside the pods, in the server's own root: for looking
// at the sandbox itself.
func (s *server) shell(ctx context.Context, c remote.Command, args []string) (int, error) {
	var how pod.Exec
	if err := json.Unmarshal([]byte(args[0]), &how); err != nil {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	cmd.Env = append(os.Environ(), how.Env...)
	cmd.Dir = how.Dir
	return c.Attach(cmd)
}
