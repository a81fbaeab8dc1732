package kubecluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/oci"
)

// disk makes the disk that every node starts with: containerd's own directory,
// the images unpacked in it. Containerd does that here, on the host, once: in a
// guest, where a context switch costs ten times as much, it takes minutes.
type disk struct {
	programs string
	work     string // a directory of its own, for as long as it is made
}

// diskSize is that of the file system. It has holes where there is nothing.
const diskSize = "16G"

func (b *Bed) makeDisk(ctx context.Context, programs string) error {
	b.options.Progress("unpacking the images for the nodes (%d archives)", len(b.options.Images))
	d := disk{programs: programs, work: filepath.Join(b.dir, "disk")}
	defer os.RemoveAll(d.work)
	if err := os.MkdirAll(d.work, 0o700); err != nil {
		return fmt.Errorf("cannot make the nodes' disk: %v", err)
	}
	if err := d.fill(ctx, b.options.Images); err != nil {
		return fmt.Errorf("cannot make the nodes' disk: %w", err)
	}
	out, err := exec.CommandContext(ctx, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1",
		"-d", d.at("root"), filepath.Join(b.dir, fabric.Disk), diskSize).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot make the nodes' disk: mke2fs: %v\n%s", err, out)
	}
	return nil
}

func (d disk) at(name string) string { return filepath.Join(d.work, name) }

// fill runs containerd for as long as it takes to give it the images.
func (d disk) fill(ctx context.Context, images []string) error {
	pause, err := d.pause()
	if err != nil {
		return err
	}
	stop, err := d.containerd(ctx)
	if err != nil {
		return err
	}
	for _, path := range append([]string{pause}, images...) {
		out, err := exec.CommandContext(ctx, filepath.Join(d.programs, "ctr"), "--address", d.at("socket"), "--namespace", "k8s.io",
			"images", "import", "--local", path).CombinedOutput()
		if err != nil {
			return errors.Join(fmt.Errorf("cannot import %s: %v\n%s", path, err, out), stop())
		}
	}
	return stop()
}

// pause is the archive with the image that no pod starts without.
func (d disk) pause() (string, error) {
	layer, err := os.Create(d.at("pause.layer"))
	if err != nil {
		return "", err
	}
	defer layer.Close()
	if err := oci.Layer(layer, map[string]string{"/pause": filepath.Join(d.programs, "pause")}); err != nil {
		return "", err
	}
	if _, err := layer.Seek(0, 0); err != nil {
		return "", err
	}
	var image bytes.Buffer
	if err := (oci.Image{Name: "registry.invalid/pause:1", Entrypoint: []string{"/pause"}, User: "65535"}).Write(&image, layer); err != nil {
		return "", err
	}
	return d.at("pause.tar"), os.WriteFile(d.at("pause.tar"), image.Bytes(), 0o600)
}

const diskConfig = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]
[grpc]
address = %q
`

const containerdLimit = time.Minute

// containerd starts it and waits until it answers. Its mounts are its own.
func (d disk) containerd(ctx context.Context) (stop func() error, err error) {
	config := fmt.Sprintf(diskConfig, d.at("root"), d.at("state"), d.at("socket"))
	if err := os.WriteFile(d.at("config.toml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(d.programs, "containerd"), "--config", d.at("config.toml"))
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit := time.After(containerdLimit)
	for {
		if conn, err := net.Dial("unix", d.at("socket")); err == nil {
			conn.Close()
			return func() error {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					return err
				}
				return <-ended
			}, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("containerd has ended: %v\n%s", err, said.String())
		case <-limit:
			_ = cmd.Process.Kill() // it may have ended
			return nil, fmt.Errorf("no answer from containerd in %v", containerdLimit)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
