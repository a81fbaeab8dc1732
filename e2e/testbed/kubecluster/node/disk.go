package node

import (
	"fmt"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"golang.org/x/sys/unix"
)

// askDisk reads a block of the guest's disk each second, past the page cache, as long as the guest lives. User-Mode
// Linux with several CPUs loses the news of an answer of its disk now and then: in one of some hundred boots a write was
// in flight for 469 s, and containerd with it, until the guest ended. The kernel takes all answers that are there
// whenever it hears of one.
func askDisk() error {
	disk, err := os.OpenFile(guest.DiskDevice, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	// O_DIRECT wants an address at the start of a page.
	block, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("cannot make a block to read %s: %v", guest.DiskDevice, err)
	}
	go func() {
		for range time.Tick(time.Second) {
			_, _ = disk.ReadAt(block, 0) // the node's programs tell of a disk that fails
		}
	}()
	return nil
}
