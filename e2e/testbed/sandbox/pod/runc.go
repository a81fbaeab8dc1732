package pod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// engine makes containers out of bundles. It is runc, but for tests.
type engine interface {
	// create prepares a container whose output goes to log, and returns the
	// process that is going to be its PID 1.
	create(id, bundle string, log *os.File) (int, error)
	start(id string) error
	// update changes a running container's limits.
	update(id string, limits *specs.LinuxResources) error
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

func (runc) update(id string, limits *specs.LinuxResources) error {
	// Devices cannot be given again, and are not meant.
	in, err := json.Marshal(specs.LinuxResources{CPU: limits.CPU, Memory: limits.Memory, Unified: limits.Unified})
	if err != nil {
		return fmt.Errorf("cannot resize container %s: %v", id, err)
	}
	cmd := exec.Command("runc", "update", "--resources", "-", id)
	cmd.Stdin = bytes.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot resize container %s: %v: %s", id, err, bytes.TrimSpace(out))
	}
	return nil
}

func (runc) remove(id string) error {
	if out, err := exec.Command("runc", "delete", "--force", id).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot remove container %s: %v: %s", id, err, bytes.TrimSpace(out))
	}
	return nil
}
