package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// buildkit is a running buildkitd. It ends with this process.
type buildkit struct {
	cmd    *exec.Cmd
	dir    string // its socket and its log
	cgroup string // the name of what it makes in every hierarchy
	ended  chan struct{}
	err    error // how it ended
}

const (
	startLimit = 5 * time.Minute // it looks through its cache, and has what time other steps leave
	endLimit   = 20 * time.Second
)

// startBuildkit starts buildkitd in a mount namespace of its own, with the
// machine's network: builds install packages. It answers when this returns.
func startBuildkit(ctx context.Context, program, cache string) (*buildkit, error) {
	dir, err := os.MkdirTemp("", "slurmlet-buildkit-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for buildkitd: %w", err)
	}
	b := &buildkit{dir: dir, cgroup: "slurmlet-images-" + strconv.Itoa(os.Getpid()), ended: make(chan struct{})}
	if err := b.start(program, cache); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := b.answers(ctx); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

func (b *buildkit) start(program, cache string) error {
	config := filepath.Join(b.dir, "buildkitd.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, configuration, b.cgroup), 0o600); err != nil {
		return fmt.Errorf("cannot configure buildkitd: %w", err)
	}
	output, err := os.Create(b.log())
	if err != nil {
		return fmt.Errorf("cannot make buildkitd's log: %w", err)
	}
	defer output.Close()
	b.cmd = exec.Command(program, "--config", config, "--root", filepath.Join(cache, "buildkit"), "--addr", b.address())
	b.cmd.Env = append(os.Environ(), "TMPDIR="+b.dir) // its mount points go with it
	b.cmd.Stdout, b.cmd.Stderr = output, output
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM, Unshareflags: syscall.CLONE_NEWNS}
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("cannot start buildkitd: %w", err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.ended)
	}()
	return nil
}

const configuration = `[worker.oci]
  enabled = true
  binary = "runc"
  networkMode = "host"
  snapshotter = "overlayfs"
  defaultCgroupParent = "%s"
[worker.containerd]
  enabled = false
`

func (b *buildkit) address() string { return "unix://" + filepath.Join(b.dir, "buildkitd.sock") }

func (b *buildkit) log() string { return filepath.Join(b.dir, "buildkitd.log") }

func (b *buildkit) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := net.Dial("unix", filepath.Join(b.dir, "buildkitd.sock"))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ticker.C:
		case <-b.ended:
			said, _ := os.ReadFile(b.log())
			return fmt.Errorf("buildkitd has ended: %v\n%s", b.err, said)
		case <-ctx.Done():
			return fmt.Errorf("cannot reach buildkitd: %w", context.Cause(ctx))
		}
	}
}

// stop ends it and removes what it leaves, but the cache.
func (b *buildkit) stop() error {
	_ = b.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-b.ended:
	case <-time.After(endLimit):
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
		<-b.ended
	}
	err := os.RemoveAll(b.dir)
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		left, _ := filepath.Glob(pattern + b.cgroup) // the pattern is well-formed
		for _, dir := range left {
			err = errors.Join(err, removeCgroups(dir))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot clean up after buildkitd: %w", err)
	}
	return nil
}

// removeCgroups removes a cgroup and those in it, which buildkitd has left empty.
func removeCgroups(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
