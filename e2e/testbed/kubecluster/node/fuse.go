package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// FuseResource is what a container asks for that is to have /dev/fuse.
const FuseResource = "slurmlet.dev/fuse"

const (
	fuseDevice = "/dev/fuse"
	fuseSocket = "fuse.sock"
	// fuseDevices is how many containers may have it at once. Each has a number of its own for the one device.
	fuseDevices = 100
)

// fusePlugin is a device plugin, as a site's is: the kubelet asks it which devices there are, and what a container with
// one of them is given.
type fusePlugin struct {
	plugin.UnimplementedDevicePluginServer
}

// offerFuse serves the plugin for as long as the node lives. A kubelet that starts removes all plugins' sockets, and
// wants them to register again.
func offerFuse() {
	if err := os.Chmod(fuseDevice, 0o666); err != nil { // as udev does
		say("cannot offer %s: %v", fuseDevice, err)
		return
	}
	for range time.Tick(time.Second) {
		if err := offerFuseOnce(); err != nil {
			say("cannot offer %s: %v", fuseDevice, err)
		}
	}
}

// offerFuseOnce returns when the socket is gone, or the kubelet does not answer, which starts later.
func offerFuseOnce() error {
	socket := filepath.Join(plugin.DevicePluginPath, fuseSocket)
	if err := errors.Join(os.MkdirAll(plugin.DevicePluginPath, 0o750), os.RemoveAll(socket)); err != nil {
		return err
	}
	listen, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer listen.Close()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(plugin.DevicePluginPath); err != nil {
		return err
	}
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, fusePlugin{})
	go func() { _ = server.Serve(listen) }() // until it is stopped
	defer server.Stop()
	if _, err := os.Lstat(socket); err != nil || registerFuse() != nil {
		return nil
	}
	for event := range watcher.Events {
		if event.Name == socket && event.Has(fsnotify.Remove) {
			return nil
		}
	}
	return nil
}

// registerFuse tells the kubelet of the plugin.
func registerFuse() error {
	conn, err := grpc.NewClient("unix://"+plugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = plugin.NewRegistrationClient(conn).Register(ctx, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: fuseSocket, ResourceName: FuseResource,
	})
	return err
}

// GetDevicePluginOptions returns that there is nothing to do before a container starts.
func (fusePlugin) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch tells of the devices once: none comes or goes.
func (fusePlugin) ListAndWatch(_ *plugin.Empty, stream grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	var all []*plugin.Device
	for i := range fuseDevices {
		all = append(all, &plugin.Device{ID: fmt.Sprint("fuse-", i), Health: plugin.Healthy})
	}
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: all}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate gives each container the machine's /dev/fuse.
func (fusePlugin) Allocate(_ context.Context, asked *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for range asked.GetContainerRequests() {
		answer.ContainerResponses = append(answer.ContainerResponses, &plugin.ContainerAllocateResponse{
			Devices: []*plugin.DeviceSpec{{ContainerPath: fuseDevice, HostPath: fuseDevice, Permissions: "rw"}},
		})
	}
	return answer, nil
}
