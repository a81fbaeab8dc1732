package fabric

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// VerbNode is the part of the program that a node's machine is started with, in
// namespaces of its own.
const VerbNode = "launch-kube-node"

type computers []*computer

func newComputers(s Settings, dir string) computers {
	var all computers
	for i, name := range s.Nodes {
		all = append(all, &computer{
			name: name, program: s.Binary, boot: Boot(dir, name),
			cable: fmt.Sprintf("guest%d", i), end: fmt.Sprintf("node%d", i),
		})
	}
	return all
}

func (all computers) named(name string) (*computer, error) {
	var names []string
	for _, n := range all {
		if n.name == name {
			return n, nil
		}
		names = append(names, n.name)
	}
	return nil, fmt.Errorf("no node %q; there are: %s", name, strings.Join(names, " "))
}

// computer is a node's machine, which can be switched on and off.
type computer struct {
	name, program, boot string
	// cable is the interface that the guest has in hand, and end the bridge's.
	cable, end string

	mu    sync.Mutex
	cmd   *exec.Cmd     // nil while it is off
	ended chan struct{} // closed when cmd has
}

// on switches the machine on. Nothing is left of what it was before.
func (n *computer) on() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return fmt.Errorf("cannot switch node %s on: it is", n.name)
	}
	if err := n.lay(); err != nil {
		return err
	}
	cmd := exec.Command(n.program, VerbNode, n.boot, n.cable)
	console, err := appendTo(n.boot + ".console")
	if err != nil {
		return err
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot switch node %s on: %v", n.name, err)
	}
	ended := make(chan struct{})
	n.cmd, n.ended = cmd, ended
	go func() {
		say("node %s has ended: %v", n.name, cmd.Wait())
		close(ended)
	}()
	return nil
}

// lay makes the node's cable, the first time.
func (n *computer) lay() error {
	if _, err := netlink.LinkByName(n.end); err == nil {
		return n.plug(true)
	}
	if err := guest.MakeCable(n.cable, n.end); err != nil {
		return err
	}
	return plugIn(n.end)
}

// off is a power cut: nothing on the node learns of it.
func (n *computer) off() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return fmt.Errorf("cannot switch node %s off: it is", n.name)
	}
	_ = n.cmd.Process.Kill() // PID 1 of its namespace; it may have ended
	<-n.ended
	n.cmd = nil
	return nil
}

// plug pulls the node's cable out of the bridge, or plugs it in again.
func (n *computer) plug(in bool) error {
	link, err := netlink.LinkByName(n.end)
	if err == nil && in {
		err = netlink.LinkSetUp(link)
	} else if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("cannot set the link of node %s: %v", n.name, err)
	}
	return nil
}
