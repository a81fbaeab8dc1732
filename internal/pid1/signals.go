package pid1

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// sigrtmin3 is glibc's SIGRTMIN+3, the STOPSIGNAL of images that were made for systemd (systemd(1)).
const sigrtmin3 = unix.Signal(37)

// Signals delivers what ends a container or reloads it. Each signal more costs the start some thread switches; the others do no harm:
// those of job control and of a crash do what they always do, and Go drops the rest (os/signal, "Default behavior of signals").
// stop ends the delivery.
func Signals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 16) // room for a burst: os/signal drops what does not fit
	signal.Notify(c, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, sigrtmin3)
	return c, func() { signal.Stop(c) }
}
