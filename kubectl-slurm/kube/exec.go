package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// Streams are a command's. Sizes is nil without a terminal.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	TTY      bool
	Sizes    remotecommand.TerminalSizeQueue
}

// Run runs a command in a pod's container, over a WebSocket, and over SPDY where a proxy lets none through. Its error
// is a *slurm.Refusal if the command has ended with another status than 0.
func (c *Client) Run(ctx context.Context, p *corev1.Pod, s Streams, command ...string) error {
	if p.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("pod %s runs no command: it is %s", p.Name, p.Status.Phase)
	}
	url := c.api.CoreV1().RESTClient().Post().Resource("pods").Name(p.Name).Namespace(p.Namespace).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: Container(p), Command: command, TTY: s.TTY, Stdin: s.In != nil, Stdout: s.Out != nil, Stderr: s.Err != nil && !s.TTY,
		}, scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, url.String())
	if err != nil {
		return fmt.Errorf("cannot run a command in pod %s: %w", p.Name, err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, url)
	if err != nil {
		return fmt.Errorf("cannot run a command in pod %s: %w", p.Name, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("cannot run a command in pod %s: %w", p.Name, err)
	}
	options := remotecommand.StreamOptions{Stdin: s.In, Stdout: s.Out, Stderr: s.Err, Tty: s.TTY, TerminalSizeQueue: s.Sizes}
	if s.TTY {
		options.Stderr = nil
	}
	err = executor.StreamWithContext(ctx, options)
	var ended utilexec.CodeExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended):
		return &slurm.Refusal{Command: command, Status: ended.Code}
	}
	right := Right{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: p.Namespace}
	if apierrors.IsForbidden(err) || !c.may(ctx, right) {
		return &MissingRight{right, err.Error()}
	}
	return fmt.Errorf("cannot run %s in pod %s: %w", command[0], p.Name, err)
}

// podAsker runs commands in one pod.
type podAsker struct {
	client *Client
	pod    *corev1.Pod
}

// Inside is the Asker of a pod.
func (c *Client) Inside(p *corev1.Pod) slurm.Asker { return podAsker{c, p} }

// mostAnswer bounds what a command may print, in bytes.
const mostAnswer = 256 << 20

// Ask runs a command, and returns what it prints.
func (i podAsker) Ask(ctx context.Context, command ...string) (string, error) {
	var out, said bytes.Buffer
	err := i.client.Run(ctx, i.pod, Streams{Out: &limited{&out, mostAnswer}, Err: &limited{&said, 1 << 20}}, command...)
	if refused, is := errors.AsType[*slurm.Refusal](err); is {
		refused.Said = said.String()
		if refused.Said == "" {
			refused.Said = out.String()
		}
	}
	return out.String(), err
}

// limited refuses what comes after so many bytes.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(text []byte) (int, error) {
	if l.left -= len(text); l.left < 0 {
		return 0, errors.New("the command prints too much")
	}
	return l.to.Write(text)
}

// Asker runs Slurm's commands: in slurmctld's pod, or where that does not run, in one that knows slurmctld.
func (c *Cluster) Asker(ctx context.Context) (slurm.Asker, *corev1.Pod, error) {
	for _, role := range []string{"slurmctld", "login"} {
		for _, p := range c.Daemons(role) {
			if p.Status.Phase == corev1.PodRunning && (role == "slurmctld" || Ready(&p)) {
				return c.Inside(&p), &p, nil
			}
		}
	}
	nodes, err := c.NodePods(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range nodes {
		if Ready(&nodes[i]) {
			return c.Inside(&nodes[i]), &nodes[i], nil
		}
	}
	return nil, nil, fmt.Errorf("no pod of the cluster %s can ask slurmctld: neither slurmctld's runs, nor is one of a login set or a node Ready", c.Name)
}
