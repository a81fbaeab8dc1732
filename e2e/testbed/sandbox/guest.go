package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/machine"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/server"
	"github.com/slurmlet/slurmlet/internal/pod/pid1"
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
	if err := errors.Join(machine.OwnMounts(), linkToGuest()); err != nil {
		return err
	}
	cmd, err := guest.Guest{Kernel: settings.Kernel, Boot: boot, Init: server.Init, CPUs: settings.CPUs, Memory: settings.Memory, Cable: cable}.Command()
	if err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("guest ended: %v", err)
	}
	return errors.New("guest ended")
}

const cable, cableEnd = "v0", "v1"

// linkToGuest gives the other end of the guest's cable the host's address.
func linkToGuest() error {
	if err := guest.MakeCable(cable, cableEnd); err != nil {
		return err
	}
	if err := guest.SetUp("lo", "", 0); err != nil {
		return err
	}
	return guest.SetUp(cableEnd, server.HostAddress, server.LinkPrefix)
}
