package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// announce notifies, and makes sure that it was heard if a barrier is chosen.
func announce(format string, args ...any) {
	notify(fmt.Sprintf(format, args...))
	if chosen("barrier") {
		barrier()
	}
}

func notify(text string, files ...int) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	defer unix.Close(fd)
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	must(unix.Sendmsg(fd, []byte(text), rights, &unix.SockaddrUnix{Name: os.Getenv("NOTIFY_SOCKET")}, 0))
}

// barrier waits until the receiver has closed the descriptor (sd_notify_barrier(3)).
func barrier() {
	r, w, err := os.Pipe()
	must(err)
	defer r.Close()
	notify("BARRIER=1", int(w.Fd()))
	must(w.Close())
	must(r.SetReadDeadline(time.Now().Add(5 * time.Second)))
	if _, err := r.Read(make([]byte, 1)); os.IsTimeout(err) {
		note("barrier was not released")
		return
	}
	note("barrier was released")
}

// connect tries to reach a socket and prints what came of it.
func connect(network, path string) {
	conn, err := net.Dial(network, path)
	if err == nil {
		_, err = conn.Write([]byte("READY=1"))
	}
	fmt.Println(err)
}
