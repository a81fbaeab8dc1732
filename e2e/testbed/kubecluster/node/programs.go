package node

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/daemon"
)

//go:embed files
var files embed.FS

// programs are the node's, by name.
type programs map[string]*daemon.Daemon

// start configures and starts them. The kubelet tries until it finds the API.
func (s Settings) start() (programs, error) {
	if err := s.writeFiles(); err != nil {
		return nil, fmt.Errorf("cannot configure node %s: %v", s.Name, err)
	}
	all := programs{}
	for _, d := range s.daemons() {
		if err := d.Start(); err != nil {
			return nil, err
		}
		all[d.Name] = d
		if d.Name != "containerd" {
			continue
		}
		if err := awaitContainerd(d); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s Settings) daemons() []*daemon.Daemon {
	all := []*daemon.Daemon{
		{Name: "containerd", Args: []string{"--config", filepath.Join(configDir, "containerd.toml")}},
		{Name: "kubelet", Args: []string{
			"--config", filepath.Join(configDir, "kubelet.yaml"), "--kubeconfig", filepath.Join(configDir, "kubelet.kubeconfig"),
			"--hostname-override", s.Name, "--node-ip", s.Address, "--v", "2",
		}},
		{Name: "kube-proxy", Args: []string{"--config", filepath.Join(configDir, "proxy.yaml")}},
	}
	for _, d := range all {
		d.Path, d.Logs = filepath.Join(programsDir, d.Name), logsDir
	}
	return all
}

func (s Settings) writeFiles() error {
	for name, text := range map[string][]byte{"kubelet.kubeconfig": s.Kubelet, "proxy.kubeconfig": s.Proxy, "authority.crt": s.Authority} {
		if err := os.WriteFile(filepath.Join(configDir, name), text, 0o600); err != nil {
			return err
		}
	}
	all, err := template.ParseFS(files, "files/*")
	if err != nil {
		return err
	}
	for name, dir := range map[string]string{
		"containerd.toml": configDir, "kubelet.yaml": configDir, "proxy.yaml": configDir, "bridge.conflist": "/etc/cni/net.d",
	} {
		var text bytes.Buffer
		if err := errors.Join(os.MkdirAll(dir, 0o755), all.ExecuteTemplate(&text, name, s)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdLimit  = time.Minute
)

// awaitContainerd waits until it answers what a kubelet asks first: one that starts before ends at once, and nothing here
// starts it again.
func awaitContainerd(d *daemon.Daemon) error {
	ctx, cancel := context.WithTimeout(context.Background(), containerdLimit)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+containerdSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		// Neither the question nor the answer matters: both are read as messages without a field.
		err := conn.Invoke(ctx, "/runtime.v1.RuntimeService/Version", &emptypb.Empty{}, &emptypb.Empty{}, grpc.WaitForReady(true))
		if err == nil {
			return nil
		}
		select {
		case <-d.Ended():
			return errors.New("containerd has ended: see its log")
		case <-ctx.Done():
			return fmt.Errorf("no answer from containerd in %v: %v", containerdLimit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ctr is containerd's client, where the kubelet's images are.
func ctr(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(programsDir, "ctr"), append([]string{"--namespace", "k8s.io"}, args...)...)
}

func (p programs) named(name string) (*daemon.Daemon, error) {
	if d := p[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("no program %q on a node; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(p)), " "))
}
