package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ClearOOMGroup sets memory.oom.group of the container's cgroup (base, as in
// Delegation) to 0 and reads it back. The kubelet sets it to 1: then a job that
// brings the container to its limit takes every process of the container with
// it, slurmd and the agent too (cgroup-v2.rst, memory.oom.group). With 0 the
// kernel kills one process, of those that it may prefer (proc(5),
// oom_score_adj).
func (f FS) ClearOOMGroup(base string) error {
	name := filepath.Join(base, "memory.oom.group")
	path := filepath.Join(f.root, name)
	// Not os.WriteFile: a file that is not there is not to be made.
	if err := write(path, "0"); err != nil {
		return fmt.Errorf("cannot clear the container's memory.oom.group: %w", err)
	}
	is, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read back the container's memory.oom.group: %w", err)
	}
	if text := strings.TrimSpace(string(is)); text != "0" {
		return fmt.Errorf("cannot clear the container's memory.oom.group: %s stays %q", name, text)
	}
	return nil
}

// ReadOOMKills is how many processes below dir the kernel has killed because a
// cgroup was out of memory (memory.events, oom_kill).
func (f FS) ReadOOMKills(dir string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(f.root, dir, "memory.events"))
	if err != nil {
		return 0, fmt.Errorf("cannot count the processes that were killed: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if count, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
			return strconv.ParseInt(count, 10, 64)
		}
	}
	return 0, errors.New("cannot count the processes that were killed: memory.events has no oom_kill")
}

// write writes an interface file, which takes one write and is never made.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
