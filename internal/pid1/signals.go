package pid1

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// sigrtmin3 is glibc's SIGRTMIN+3, the STOPSIGNAL of images that were made for systemd (systemd(1)).
const sigrtmin3 = unix.Signal(37)

// Signals delivers what people and container runtimes send to a container. SIGURG (Go preempts goroutines with it),
// SIGCHLD and SIGPIPE are never delivered, nor are the signals of a crash and of job control. stop ends the delivery.
func Signals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 16) // room for a burst: os/signal drops what does not fit
	signal.Notify(c, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGWINCH, unix.SIGPWR, sigrtmin3)
	return c, func() { signal.Stop(c) }
}
