package outlet

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Descriptor is a file descriptor of the program's, as of 1, its standard output:
// a write to a pipe that has been closed is an error, where an os.File would end the
// program (os/signal, "SIGPIPE").
type Descriptor int

// Write waits as long as the descriptor is not ready for it, also where somebody has
// made it non-blocking: its other holders share that.
func (d Descriptor) Write(data []byte) (written int, err error) {
	for written < len(data) {
		n, err := unix.Write(int(d), data[written:])
		written += max(n, 0)
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(d), Events: unix.POLLOUT}},
				-1) //nolint:gosec // a descriptor fits; the next write returns what is wrong
		default:
			return written, fmt.Errorf("cannot write: %w", err)
		}
	}
	return written, nil
}
