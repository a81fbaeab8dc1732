package child

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// mostSaid is how much of each of a command's two streams is kept.
const mostSaid = 16 << 10

// ErrSilent is the error of a command that has not ended within its limit.
var ErrSilent = errors.New("no answer")

// Ask runs a command for at most a limit, and returns what it has printed. It is killed after that, with the children
// that have stayed in its process group. The error of a command that fails is the last line of its standard error.
func Ask(ctx context.Context, limit time.Duration, command ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w within %v", ErrSilent, limit))
	defer cancel()
	var out, said kept
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := Run(cmd)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("cannot run %s: %w", command[0], context.Cause(ctx))
	case err != nil && len(said.text) > 0:
		lines := strings.Split(strings.TrimSpace(string(said.text)), "\n")
		return "", errors.New(lines[len(lines)-1])
	case err != nil:
		return "", fmt.Errorf("cannot run %s: %w", command[0], err)
	}
	return string(out.text), nil
}

// kept is the beginning of a stream.
type kept struct{ text []byte }

func (k *kept) Write(p []byte) (int, error) {
	k.text = append(k.text, p[:min(len(p), mostSaid-len(k.text))]...)
	return len(p), nil
}
