package fabric

import (
	"errors"
	"fmt"
	"os"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/node"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/machine"
	"github.com/slurmlet/slurmlet/internal/pod/pid1"
)

// RunNode is PID 1 of a node's namespaces, called from the main goroutine: it
// runs the guest that is the node's machine until that ends.
func RunNode(boot, cable string) int {
	code, err := pid1.Run(func(pid1.Exit) {}, func() int {
		say("%v", runGuest(boot, cable))
		return 1
	})
	if err != nil {
		say("%v", err)
		return 1
	}
	return code
}

func runGuest(boot, cable string) error {
	s, err := node.Read(boot)
	if err != nil {
		return err
	}
	if err := machine.OwnMounts(); err != nil {
		return err
	}
	cmd, err := guest.Guest{Kernel: s.Kernel, Boot: boot, Init: node.Init, CPUs: s.CPUs, Memory: s.Memory, Disk: s.Disk, Cable: cable}.Command()
	if err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("guest ended: %v", err)
	}
	return errors.New("guest ended")
}

func appendTo(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the console: %v", err)
	}
	return f, nil
}
