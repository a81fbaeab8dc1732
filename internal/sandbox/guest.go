package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/slurmlet/slurmlet/internal/pid1"
	"github.com/slurmlet/slurmlet/internal/sandbox/server"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LaunchGuest runs a User-Mode-Linux guest from the boot directory until it
// ends. It is PID 1 of fresh namespaces, and called from the main goroutine.
func LaunchGuest(boot string) int {
	code, err := pid1.Run(func(pid1.Exit) {}, func() int {
		if err := runGuest(boot); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runGuest(boot string) error {
	settings, err := server.ReadSettings(boot)
	if err != nil {
		return err
	}
	memory := filepath.Join(boot, "memory")
	if err := errors.Join(mountForGuest(memory, settings.Memory), linkToGuest()); err != nil {
		return err
	}
	cmd := exec.Command(settings.Kernel, kernelArgs(boot, settings)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The kernel keeps the guest's memory in a file that must be on a tmpfs, and a
	// directory for a console we do not use: both go with the mount namespace.
	cmd.Env = []string{"TMPDIR=" + memory, "HOME=" + memory, "PATH=/usr/bin:/bin"}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("guest ended: %v", err)
	}
	return errors.New("guest ended")
}

func kernelArgs(boot string, s server.Settings) []string {
	return []string{
		fmt.Sprintf("mem=%dM", s.Memory), fmt.Sprintf("ncpus=%d", s.CPUs),
		"root=/dev/root", "rootfstype=hostfs", "rootflags=" + boot, "rw", "init=" + server.Init,
		"con=null", "con0=null,fd:1", "con1=null", "seccomp=on", "quiet", "panic=-1",
		"uml_dir=" + filepath.Join(boot, "memory") + "/",
		server.GuestLink + ":transport=raw,ifname=v0,gro=1",
	}
}

// mountForGuest gives the kernel a /proc that knows it, and room for memory MiB.
func mountForGuest(dir string, memory int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %v", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %v", err)
	}
	if err := unix.Mount("memory", dir, "tmpfs", 0, fmt.Sprintf("mode=700,size=%dM", memory+64)); err != nil {
		return fmt.Errorf("cannot mount the guest's memory: %v", err)
	}
	return nil
}

// linkToGuest makes v1, which has the host's address, and v0, which the guest's
// kernel reads and writes as a raw socket.
func linkToGuest() error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("cannot make the guest's link: %v", err)
	}
	for _, name := range []string{"lo", "v0", "v1"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("cannot find link %s: %v", name, err)
		}
		if name == "v1" {
			address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(server.HostAddress), Mask: net.CIDRMask(server.LinkPrefix, 32)}}
			if err := netlink.AddrAdd(link, address); err != nil {
				return fmt.Errorf("cannot give %s an address: %v", name, err)
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("cannot bring up %s: %v", name, err)
		}
	}
	return nil
}
