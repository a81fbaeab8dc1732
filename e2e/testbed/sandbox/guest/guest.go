// Package guest runs a User-Mode-Linux guest, a machine with a kernel of its
// own whose first root is a directory of the host's (hostfs).
package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Guest is one machine.
type Guest struct {
	// Kernel is the program; parts.Kernel makes it.
	Kernel string
	// Boot is its first root, and Init its init in there: "/init".
	Boot, Init string
	// CPUs and Memory (MiB) are its size.
	CPUs, Memory int
	// Disk is a file on the host, or empty. What the guest writes to it is gone with the guest.
	Disk string
	// Cable is the host's interface that its Link is the other end of.
	Cable string
}

// Link is the guest's network interface.
const Link = "vec0"

// Is tells a guest's init by the name the kernel starts it with.
func Is(init string) bool { return os.Getpid() == 1 && os.Args[0] == init }

// PowerOff ends the guest that this is the init of.
func PowerOff() { _ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) }

// Command makes room for the guest's memory and returns what starts it. The
// mount belongs to the mount namespace of who calls.
func (g Guest) Command() (*exec.Cmd, error) {
	dir := filepath.Join(g.Boot, "memory")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot mount the guest's memory: %v", err)
	}
	if err := unix.Mount("memory", dir, "tmpfs", 0, fmt.Sprintf("mode=700,size=%dM", g.room())); err != nil {
		return nil, fmt.Errorf("cannot mount the guest's memory: %v", err)
	}
	cmd := exec.Command(g.Kernel, g.args(dir)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The kernel keeps the guest's memory in a file that must be on a tmpfs, and a
	// directory for a console we do not use: both go with the mount namespace.
	cmd.Env = []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=/usr/bin:/bin"}
	return cmd, nil
}

// written is how much a guest may write to its disk, in MiB.
const written = 4096

// room is what a guest can fill: its memory, and what it writes to its disk.
func (g Guest) room() int {
	if g.Disk == "" {
		return g.Memory + 64
	}
	return g.Memory + 64 + written
}

// DiskDevice is the guest's disk.
const DiskDevice = "/dev/ubda"

func (g Guest) args(memory string) []string {
	args := []string{
		fmt.Sprintf("mem=%dM", g.Memory), fmt.Sprintf("ncpus=%d", g.CPUs),
		"root=/dev/root", "rootfstype=hostfs", "rootflags=" + g.Boot, "rw", "init=" + g.Init,
		"con=null", "con0=null,fd:1", "con1=null", "seccomp=on", "quiet", "panic=-1",
		"uml_dir=" + memory + "/",
		Link + ":transport=raw,ifname=" + g.Cable + ",gro=1",
	}
	if g.Disk != "" {
		args = append(args, "ubd0="+filepath.Join(memory, "disk.cow")+","+g.Disk)
	}
	return args
}

// Prepare makes a boot directory: mount points, and program as the init.
func Prepare(boot, program, init string) error {
	for _, dir := range []string{"dev", "scratch"} {
		if err := os.MkdirAll(filepath.Join(boot, dir), 0o700); err != nil {
			return fmt.Errorf("cannot prepare the guest: %v", err)
		}
	}
	if err := copyFile(program, filepath.Join(boot, init)); err != nil {
		return fmt.Errorf("cannot prepare the guest: %v", err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// MakeCable makes a pair of interfaces: the guest's kernel reads and writes
// cable as a raw socket, and what comes out at its other end is the guest's.
func MakeCable(cable, end string) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: cable}, PeerName: end}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("cannot make the guest's link: %v", err)
	}
	for _, name := range []string{cable, end} {
		if err := SetUp(name, "", 0); err != nil {
			return err
		}
	}
	return nil
}

// SetUp brings a network interface up, with an address if there is one.
func SetUp(name, address string, prefix int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("cannot find link %s: %v", name, err)
	}
	if address != "" {
		its := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(prefix, 32)}}
		if err := netlink.AddrAdd(link, its); err != nil {
			return fmt.Errorf("cannot give %s an address: %v", name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("cannot bring up %s: %v", name, err)
	}
	return nil
}
