package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// The states of a pod.
const (
	Running = pod.Running
	Exited  = pod.Exited
)

// The words of pods, so that a test needs to import nothing else.
type (
	PodSpec   = pod.Spec
	PodStatus = pod.Status
	Volume    = pod.Volume
	Device    = pod.Device
	File      = pod.File
	How       = pod.Exec
	Streams   = remote.Streams
)

// Create makes a pod and starts it.
func (s *Sandbox) Create(ctx context.Context, spec PodSpec) error {
	if err := s.complete(ctx, &spec); err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("cannot create pod: %v", err)
	}
	return s.do(ctx, bytes.NewReader(data), nil, "create")
}

// complete fills in what a pod runs.
func (s *Sandbox) complete(ctx context.Context, spec *PodSpec) (err error) {
	if spec.Image == "" {
		spec.Image = s.settings.Slurm
	}
	if spec.Root == "" {
		spec.Root, err = s.rootOf(ctx, spec.Image)
	}
	return err
}

// CreateAll makes several pods at once.
func (s *Sandbox) CreateAll(ctx context.Context, specs ...PodSpec) error {
	var all group
	for _, spec := range specs {
		all.run(func() error { return s.Create(ctx, spec) })
	}
	return all.wait()
}

// Elastic has a pod of each name made when Slurm wants it, and ended when Slurm has ended its node. The agent of
// slurmctld's pod says which.
func (s *Sandbox) Elastic(ctx context.Context, specs ...PodSpec) error {
	for i := range specs {
		if err := s.complete(ctx, &specs[i]); err != nil {
			return err
		}
	}
	data, err := json.Marshal(specs)
	if err != nil {
		return fmt.Errorf("cannot make elastic pods: %v", err)
	}
	return s.do(ctx, bytes.NewReader(data), nil, "elastic", Slurmctld)
}

// Delete ends a pod as the kubelet does, and returns when nothing is left of it.
func (s *Sandbox) Delete(ctx context.Context, pod string, grace time.Duration) error {
	_, err := s.End(ctx, pod, grace)
	return err
}

// End deletes a pod and returns how its container ended.
func (s *Sandbox) End(ctx context.Context, pod string, grace time.Duration) (last PodStatus, err error) {
	var out bytes.Buffer
	if err := s.do(ctx, nil, &out, "delete", pod, grace.String()); err != nil {
		return last, err
	}
	if err := json.Unmarshal(out.Bytes(), &last); err != nil {
		return last, fmt.Errorf("cannot read how pod %s ended: %v", pod, err)
	}
	return last, nil
}

// Restart ends the pod's container as the kubelet does and starts the next: a
// fresh root file system, the same address and volumes.
func (s *Sandbox) Restart(ctx context.Context, pod string, grace time.Duration) error {
	return s.do(ctx, nil, nil, "restart", pod, grace.String())
}

// Resize changes a pod's limits in place: CPUs, and memory in bytes.
func (s *Sandbox) Resize(ctx context.Context, pod string, cpu float64, memory int64) error {
	return s.do(ctx, nil, nil, "resize", pod, strconv.FormatFloat(cpu, 'f', -1, 64), strconv.FormatInt(memory, 10))
}

// Link cuts a pod off the network (up: false), or connects it again.
func (s *Sandbox) Link(ctx context.Context, pod string, up bool) error {
	state := map[bool]string{true: "up", false: "down"}[up]
	return s.do(ctx, nil, nil, "link", pod, state)
}

// Kill sends a signal ("TERM", "SIGKILL", "9") to the container's PID 1.
func (s *Sandbox) Kill(ctx context.Context, pod, signal string) error {
	return s.do(ctx, nil, nil, "kill", pod, signal)
}

// SetFiles changes the files of a pod's volume; in a projected one all at once.
func (s *Sandbox) SetFiles(ctx context.Context, pod, volume string, files map[string]File) error {
	data, err := json.Marshal(files)
	if err != nil {
		return fmt.Errorf("cannot write files: %v", err)
	}
	return s.do(ctx, bytes.NewReader(data), nil, "files", pod, volume)
}

// Status of all pods, by name.
func (s *Sandbox) Status(ctx context.Context) ([]PodStatus, error) {
	var out bytes.Buffer
	if err := s.do(ctx, nil, &out, "status"); err != nil {
		return nil, err
	}
	var pods []PodStatus
	if err := json.Unmarshal(out.Bytes(), &pods); err != nil {
		return nil, fmt.Errorf("cannot read status: %v", err)
	}
	return pods, nil
}

// Logs is what the pod's containers have written so far.
func (s *Sandbox) Logs(ctx context.Context, pod string) (string, error) {
	var out bytes.Buffer
	err := s.do(ctx, nil, &out, "logs", pod, "false")
	return out.String(), err
}

// Follow copies the log to w until the pod is deleted or ctx ends.
func (s *Sandbox) Follow(ctx context.Context, pod string, w io.Writer) error {
	return s.do(ctx, nil, w, "logs", pod, strconv.FormatBool(true))
}

// Shutdown deletes all pods at once.
func (s *Sandbox) Shutdown(ctx context.Context, grace time.Duration) error {
	return s.do(ctx, nil, nil, "shutdown", grace.String())
}

// Exec runs a command in a pod as root. code is the command's, or 125 when the
// sandbox could not run it, which stderr then explains; err is for a lost sandbox.
func (s *Sandbox) Exec(ctx context.Context, pod string, args ...string) (stdout, stderr string, code int, err error) {
	return s.ExecAs(ctx, pod, How{}, args...)
}

// ExecAs runs a command as a user, in a directory, with more environment. Nobody speaks to it while it runs, so it
// goes the short way; Attach goes the way of "kubectl exec".
func (s *Sandbox) ExecAs(ctx context.Context, pod string, how How, args ...string) (stdout, stderr string, code int, err error) {
	var out, errs bytes.Buffer
	how.Enter = true
	code, err = s.Attach(ctx, pod, how, Streams{Stdout: &out, Stderr: &errs}, args...)
	return out.String(), errs.String(), code, err
}

// Attach runs a command with the caller's streams.
func (s *Sandbox) Attach(ctx context.Context, pod string, how How, streams Streams, args ...string) (int, error) {
	text, err := json.Marshal(how)
	if err != nil {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	return s.client.Run(ctx, append([]string{"exec", pod, string(text)}, args...), streams)
}

// Shell runs a command beside the pods, where the sandbox's server is.
func (s *Sandbox) Shell(ctx context.Context, how How, streams Streams, args ...string) (int, error) {
	text, err := json.Marshal(how)
	if err != nil {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	return s.client.Run(ctx, append([]string{"shell", string(text)}, args...), streams)
}

// Dial connects to a pod's port, "node-0:8817", or to a socket in a pod,
// "node-0:/run/slurmlet/agent.sock".
func (s *Sandbox) Dial(ctx context.Context, address string) (net.Conn, error) {
	return s.client.Dial(ctx, address)
}

// do runs a verb that either works or says why not.
func (s *Sandbox) do(ctx context.Context, in io.Reader, out io.Writer, verb ...string) error {
	var said bytes.Buffer
	code, err := s.client.Run(ctx, verb, Streams{Stdin: in, Stdout: out, Stderr: &said})
	if err == nil && code != 0 {
		err = errors.New(strings.TrimSpace(said.String()))
	}
	return err
}

func (s *Sandbox) rootOf(ctx context.Context, image string) (string, error) {
	if image == s.settings.Slurm {
		return s.settings.Root, nil
	}
	return s.options.root(ctx, image)
}
