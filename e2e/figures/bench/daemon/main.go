// Command daemon is what the bench's inits start: it writes CLOCK_MONOTONIC
// to the fifo $BENCH_REPORT when it begins and when SIGTERM arrives, and tells
// READY as slurmctld would. It tells a version (-V); under the name scontrol it
// answers a ping, and under that of another tool that there is nothing.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

var began = monotonic()

const pong = `{"pings":[{"hostname":"x","responding":true}],"errors":[]}`

func main() {
	switch filepath.Base(os.Args[0]) {
	case "scontrol":
		fmt.Println(pong)
		return
	case "sdiag", "squeue":
		return
	}
	if slices.Contains(os.Args, "-V") {
		fmt.Println("slurm 26.05.5")
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "daemon:", err)
		os.Exit(1)
	}
}

func serve() error {
	report, err := os.OpenFile(os.Getenv("BENCH_REPORT"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM)
	fmt.Fprintln(report, "start", began)
	if err := ready(os.Getenv("NOTIFY_SOCKET")); err != nil {
		return err
	}
	<-signals
	fmt.Fprintln(report, "SIGTERM", monotonic())
	return nil
}

func ready(socket string) error {
	if socket == "" {
		return nil
	}
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("READY=1"))
	return err
}

// monotonic is in nanoseconds; the clock is the whole machine's.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux always has it
	}
	return t.Nano()
}
