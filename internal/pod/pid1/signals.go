package pid1

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// sigrtmin3 is glibc's SIGRTMIN+3, the STOPSIGNAL of images that were made for systemd (systemd(1)).
const sigrtmin3 = unix.Signal(37)

// early has the signals of PID 1 from the program's first moment on: a pod may be deleted before its agent listens, and Go's
// runtime ends PID 1 with 2 then. Of any other process the signal is the end, as its parent expects.
var early = listen(os.Getpid() == 1)

func listen(now bool) chan os.Signal {
	c := make(chan os.Signal, 16) // room for a burst: os/signal drops what does not fit
	if now {
		notify(c)
	}
	return c
}

func notify(c chan os.Signal) {
	signal.Notify(c, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, sigrtmin3)
}

// Signals delivers what ends a container or reloads it. Each signal more costs the start some thread switches; the others do no harm:
// those of job control and of a crash do what they always do, and Go drops the rest (os/signal, "Default behavior of signals").
// stop ends the delivery.
func Signals() (<-chan os.Signal, func()) {
	notify(early)
	return early, func() { signal.Stop(early) }
}

// Deafen is for a PID 1 that wants no signals: they do what they always do from now on. ended is called for one that has come
// before.
func Deafen(ended func(os.Signal)) {
	signal.Stop(early)
	select {
	case s := <-early:
		ended(s)
	default:
	}
}
