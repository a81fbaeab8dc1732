package kubecluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/node"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// PowerOff is a power cut: the node's machine is gone at once. What it had on
// its disk is gone too.
func (b *Bed) PowerOff(ctx context.Context, node string) error {
	return do(ctx, b.client, nil, "off", node)
}

// PowerOn switches a node on that is off. It has no images and no pods.
func (b *Bed) PowerOn(ctx context.Context, node string) error {
	return do(ctx, b.client, nil, "on", node)
}

// Link cuts a node off the network (up: false), or connects it again.
func (b *Bed) Link(ctx context.Context, node string, up bool) error {
	return do(ctx, b.client, nil, "link", node, upOrDown[up])
}

// DNS stops CoreDNS (up: false), or starts it again.
func (b *Bed) DNS(ctx context.Context, up bool) error {
	return do(ctx, b.client, nil, "dns", upOrDown[up])
}

var upOrDown = map[bool]string{true: "up", false: "down"}

// Start starts one of a node's programs that was stopped: containerd, kubelet or
// kube-proxy. Stop stops one.
func (b *Bed) Start(ctx context.Context, node, program string) error {
	return b.onNode(ctx, node, nil, "start", program)
}

// Stop stops one of a node's programs.
func (b *Bed) Stop(ctx context.Context, node, program string) error {
	return b.onNode(ctx, node, nil, "stop", program)
}

// Exec runs a command on a node and returns what it wrote.
func (b *Bed) Exec(ctx context.Context, node string, args ...string) (string, error) {
	var out bytes.Buffer
	err := b.onNode(ctx, node, &out, append([]string{"exec"}, args...)...)
	return out.String(), err
}

// Attach runs a command on a node with the caller's streams, and returns its exit code.
func (b *Bed) Attach(ctx context.Context, node string, streams remote.Streams, args ...string) (code int, err error) {
	err = b.withNode(ctx, node, func(c *remote.Client) (err error) {
		code, err = c.Run(ctx, append([]string{"exec"}, args...), streams)
		return err
	})
	return code, err
}

// Import gives every node the images in an archive: the path of an OCI layout
// or of docker's format in a tar file.
func (b *Bed) Import(ctx context.Context, path string) error {
	errs := make([]error, len(b.Nodes()))
	var all sync.WaitGroup
	for i, name := range b.Nodes() {
		all.Go(func() { errs[i] = b.onNode(ctx, name, nil, "import", path) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Dial connects to a port of a node or a pod, by its address: "10.244.1.2:6817".
func (b *Bed) Dial(ctx context.Context, address string) (net.Conn, error) {
	return b.client.Dial(ctx, address)
}

// onNode runs a verb on a node, which either works or says why not.
func (b *Bed) onNode(ctx context.Context, node string, out io.Writer, verb ...string) error {
	return b.withNode(ctx, node, func(c *remote.Client) error { return do(ctx, c, out, verb...) })
}

// withNode opens a connection to a node's server, through the bed's, for the time of use.
func (b *Bed) withNode(ctx context.Context, name string, use func(*remote.Client) error) error {
	for i, known := range b.Nodes() {
		if known != name {
			continue
		}
		conn, err := b.client.Dial(ctx, fmt.Sprintf("%s:%d", fabric.Address(i), node.Port))
		if err != nil {
			return fmt.Errorf("node %s: %v", name, err)
		}
		client, err := remote.NewClient(conn, b.keys, greetingLimit)
		if err != nil {
			return fmt.Errorf("node %s: %v", name, err)
		}
		defer client.Close()
		return use(client)
	}
	return fmt.Errorf("no node %q; there are: %s", name, strings.Join(b.Nodes(), " "))
}

// do runs a verb that either works or says why not.
func do(ctx context.Context, c *remote.Client, out io.Writer, verb ...string) error {
	var said bytes.Buffer
	code, err := c.Run(ctx, verb, remote.Streams{Stdout: out, Stderr: &said})
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", strings.Join(verb, " "), code, strings.TrimSpace(said.String()))
	}
	return err
}
