package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// handOver does as Slurm's daemons do on SIGHUP under --systemd: the successor is forked twice, so it is an orphan; when it is up,
// the old process sends its pid and ends. When it does not come up, the old one goes on.
func handOver() {
	note("hands over")
	r, w, err := os.Pipe()
	must(err)
	intermediate := fork("intermediate", w)
	must(w.Close())
	successor, err := bufio.NewReader(r).ReadString('\n')
	if err == nil {
		say("Relinquishing control to new %s process (%s)", name, strings.TrimSpace(successor))
	}
	_ = intermediate.Wait() // the daemons do not ask how it ended either
	if err != nil {
		say("error: Resuming operation, reconfigure failed.")
		outcome("failed")
		return
	}
	stall("hold")
	announce("READY=1\nMAINPID=%s", strings.TrimSpace(successor))
	outcome("done")
	os.Exit(0)
}

// outcome is what scontrol reconfigure waits for.
func outcome(word string) {
	must(os.WriteFile(filepath.Join(stage, "reconfigured.new"), []byte(word), 0o644))
	must(os.Rename(filepath.Join(stage, "reconfigured.new"), filepath.Join(stage, "reconfigured")))
}

// fork starts this daemon again, with pipe as descriptor 3.
func fork(part string, pipe *os.File) *exec.Cmd {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), partEnv+"="+part)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{pipe}
	must(cmd.Start())
	return cmd
}

// takeOver signals the old process when the new one is up.
func takeOver() {
	if chosen("straddle") {
		<-time.After(time.Until(began.Truncate(time.Second).Add(time.Second + 50*time.Millisecond)))
	}
	pipe := os.NewFile(3, "pipe")
	_, err := fmt.Fprintln(pipe, os.Getpid())
	must(err)
	must(pipe.Close())
}
