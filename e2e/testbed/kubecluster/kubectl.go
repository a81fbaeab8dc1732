package kubecluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/pace"
)

// Kubectl runs kubectl and returns what it wrote to standard output.
func (b *Bed) Kubectl(ctx context.Context, args ...string) (string, error) {
	return b.KubectlOn(ctx, "", args...)
}

// Apply makes what the manifests say (kubectl apply).
func (b *Bed) Apply(ctx context.Context, manifests string) error {
	_, err := b.KubectlOn(ctx, manifests, "apply", "-f", "-")
	return err
}

// KubectlOn is Kubectl with standard input.
func (b *Bed) KubectlOn(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(b.settings.Programs, "kubectl"), args...)
	cmd.Env = append(os.Environ(), b.Environment()...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// Programs is the directory with Kubernetes' programs, kubectl among them.
func (b *Bed) Programs() string { return b.settings.Programs }

// Environment makes kubectl, and whatever else reads KUBECONFIG, use this bed:
// lines of NAME=VALUE.
func (b *Bed) Environment() []string {
	return []string{"KUBECONFIG=" + b.Kubeconfig(), "PATH=" + b.settings.Programs + ":" + os.Getenv("PATH")}
}

// settleLimit is how long the nodes may take, on a busy machine.
const settleLimit = 5 * time.Minute

// settle waits for everything that a user would wait for.
func (b *Bed) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("not up after %v", settleLimit))
	defer cancel()
	for _, one := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"the API", func(ctx context.Context) error {
			_, err := b.Kubectl(ctx, "get", "--raw", "/readyz")
			return err
		}},
		{"the nodes", b.nodesReady},
		// Without it the API refuses pods.
		{"the default service account", func(ctx context.Context) error {
			_, err := b.Kubectl(ctx, "get", "serviceaccount", "default")
			return err
		}},
	} {
		b.options.Progress("waiting for %s", one.what)
		if err := b.until(ctx, one.do); err != nil {
			return fmt.Errorf("cannot wait for %s: %w", one.what, err)
		}
	}
	if err := b.addOn(ctx); err != nil {
		return err
	}
	b.options.Progress("Kubernetes %s is up", b.options.Name)
	return nil
}

// until tries until it works or ctx ends; the last error is in that of ctx.
func (b *Bed) until(ctx context.Context, do func(context.Context) error) error {
	for began := time.Now(); ; {
		asked := time.Now()
		err := do(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-b.launcher.Ended:
			return fmt.Errorf("the bed has ended: %v", err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %v", context.Cause(ctx), err)
		case <-time.After(pace.Pause(began, asked)):
		}
	}
}

func (b *Bed) nodesReady(ctx context.Context) error {
	text, err := b.Kubectl(ctx, "get", "nodes", "-o", "json")
	if err != nil {
		return err
	}
	ready, err := readyNodes([]byte(text))
	if err == nil && ready < len(b.Nodes()) {
		err = fmt.Errorf("%d of %d nodes are Ready", ready, len(b.Nodes()))
	}
	return err
}

// readyNodes counts those in a list of nodes.
func readyNodes(list []byte) (int, error) {
	var nodes struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal(list, &nodes); err != nil {
		return 0, fmt.Errorf("cannot read the list of nodes: %v", err)
	}
	ready := 0
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready++
			}
		}
	}
	return ready, nil
}
