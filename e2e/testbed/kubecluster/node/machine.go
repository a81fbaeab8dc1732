package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/machine"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Where things are on a node.
const (
	programsDir = "/opt/kubernetes"
	configDir   = "/etc/kubernetes"
	logsDir     = "/var/log/kubernetes"
	// VolumesDir is the same on every node, and where the controller manager
	// makes volumes: storage that every node reaches.
	VolumesDir = "/tmp/hostpath_pv"
	localDir   = "/var/lib/volumes"
	cgroupRoot = "/sys/fs/cgroup"
)

// connect brings the network up. Everything that is not here goes through the bed.
func (s Settings) connect() error {
	if err := guest.SetUp("lo", "", 0); err != nil {
		return err
	}
	if err := guest.SetUp(s.link(), s.Address, 24); err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(s.Gateway)}); err != nil {
		return fmt.Errorf("cannot set the default route: %v", err)
	}
	return nil
}

// NamespaceLink is the network interface of a node that is no guest.
const NamespaceLink = "eth0"

func (s Settings) link() string {
	if s.Guest {
		return guest.Link
	}
	return NamespaceLink
}

// makeMachine makes what the kubelet expects of one.
func (s Settings) makeMachine(scratch string) error {
	root := machine.Root{Debian: s.Debian, Guest: s.Guest}
	steps := []func() error{
		func() error { return root.Enter(scratch) },
		func() error { return s.mountDirectories(root) },
		func() error { return unix.Sethostname([]byte(s.Name)) },
		func() error { return os.Setenv("PATH", programsDir+":/usr/sbin:/usr/bin:/sbin:/bin") },
		func() error { return os.Setenv("HOME", "/root") },
		makeLocalVolumes, s.writeHosts, s.describeCPUs, forward, ownCgroup,
		// The kubelet's volumes are to be seen by containerd and back.
		func() error { return machine.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("cannot make node %s: %v", s.Name, err)
		}
	}
	return nil
}

func (s Settings) mountDirectories(root machine.Root) error {
	for _, dir := range []string{programsDir, configDir, logsDir, VolumesDir, localDir, "/var/lib/containerd", "/var/lib/kubelet"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := root.MountHost(s.Programs, programsDir); err != nil {
		return err
	}
	if err := root.ShareHost(s.Logs, logsDir); err != nil {
		return err
	}
	if err := root.ShareHost(s.Volumes, VolumesDir); err != nil {
		return err
	}
	// An overlay file system, as the root is, cannot hold those of the containers.
	// Nobody checks this one, so its inode tables may stay as they are: ext4 would
	// clear them by requests that the guest's disk refuses, and once one of its
	// answers was lost among them, and every sync on the node hung.
	if err := machine.Mount(guest.DiskDevice, "/var/lib/containerd", "ext4", unix.MS_NOATIME, "noinit_itable"); err != nil {
		return err
	}
	if err := askDisk(); err != nil {
		return err
	}
	for _, dir := range []string{"/var/lib/kubelet", localDir} {
		if err := machine.Mount("node", dir, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
	}
	return nil
}

// LocalVolumes are the directories on each node that a persistent volume can be.
func LocalVolumes() []string {
	var all []string
	for i := range 8 {
		all = append(all, fmt.Sprintf("%s/volume-%d", localDir, i))
	}
	return all
}

// makeLocalVolumes makes them for every user, as provisioners do.
func makeLocalVolumes() error {
	for _, dir := range LocalVolumes() {
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			return err
		}
	}
	return nil
}

func (s Settings) writeHosts() error {
	return os.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost\n"+s.Address+" "+s.Name+"\n"), 0o644)
}

// describeCPUs gives a guest a /proc/cpuinfo in which the kubelet finds a clock
// speed: it registers no node without one.
func (s Settings) describeCPUs() error {
	if !s.Guest {
		return nil
	}
	var text strings.Builder
	for i := range runtime.NumCPU() {
		fmt.Fprintf(&text, "processor\t: %[1]d\ncpu MHz\t\t: 2000.000\nphysical id\t: 0\nsiblings\t: %[2]d\ncore id\t\t: %[1]d\ncpu cores\t: %[2]d\n\n", i, runtime.NumCPU())
	}
	const file = "/run/cpuinfo"
	if err := os.WriteFile(file, []byte(text.String()), 0o444); err != nil {
		return err
	}
	return machine.Mount(file, "/proc/cpuinfo", "", unix.MS_BIND, "")
}

// forward makes this machine a router between its pods and the others.
func forward() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// ownCgroup leaves the root of the hierarchy to the kubelet.
func ownCgroup() error {
	own := filepath.Join(cgroupRoot, "init")
	if err := os.Mkdir(own, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
	return pod.EnableControllers(cgroupRoot, nil)
}
