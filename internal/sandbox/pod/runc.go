package pod

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// engine makes containers out of bundles. It is runc, but for tests.
type engine interface {
	// create prepares a container whose output goes to log, and returns the
	// process that is going to be its PID 1.
	create(id, bundle string, log *os.File) (int, error)
	start(id string) error
	// remove kills what is left and removes the cgroup.
	remove(id string) error
}

// runc runs the binary of that name. It keeps its state in /run/runc.
type runc struct{}

func (runc) create(id, bundle string, log *os.File) (int, error) {
	pidFile, errors := filepath.Join(bundle, "pid"), filepath.Join(bundle, "runc.log")
	cmd := exec.Command("runc", "--log", errors, "create", "--bundle", bundle, "--pid-file", pidFile, id)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(errors)
		return 0, fmt.Errorf("cannot create container %s: %v: %s", id, err, bytes.TrimSpace(said))
	}
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, fmt.Errorf("cannot create container %s: %v", id, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("cannot create container %s: %v", id, err)
	}
	return pid, nil
}

func (runc) start(id string) error {
	if out, err := exec.Command("runc", "start", id).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot start container %s: %v: %s", id, err, bytes.TrimSpace(out))
	}
	return nil
}

func (runc) remove(id string) error {
	if out, err := exec.Command("runc", "delete", "--force", id).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot remove container %s: %v: %s", id, err, bytes.TrimSpace(out))
	}
	return nil
}
