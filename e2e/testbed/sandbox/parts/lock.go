package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock takes the file at path for this process alone. When another one has
// it, waits is called once, and Lock goes on trying until ctx ends. The kernel
// gives the lock back when its owner dies.
func Lock(ctx context.Context, path string, waits func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock: %w", err)
	}
	for try := 0; ; try++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if try == 0 {
			waits()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", path, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond): // flock(2) itself could not be interrupted by ctx
		}
	}
}
