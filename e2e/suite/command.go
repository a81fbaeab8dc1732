package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a command may go on after SIGTERM: tests remove what they made.
const patience = 30 * time.Second

// command runs a program whose output goes to a file, in a process group of its own, which began is told of and which
// ends with it. It returns the CPU time of what the program has waited for.
func command(ctx context.Context, limit time.Duration, log string, began func(group int), program string, args ...string) (cpu time.Duration, err error) {
	out, err := os.Create(log)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not over after %v", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = patience
	if err = cmd.Start(); err == nil {
		began(cmd.Process.Pid)
		err = cmd.Wait()
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // ESRCH is what is wanted
	}
	if state := cmd.ProcessState; state != nil {
		cpu = state.UserTime() + state.SystemTime()
	}
	if cause := context.Cause(ctx); cause != nil {
		return cpu, cause
	}
	return cpu, err
}

// lastLine is the last line of a log that says something, cut to the width of a screen.
func lastLine(log string) string {
	const width = 100
	lines := strings.Split(strings.TrimSpace(string(tail(log, 4<<10))), "\n")
	line := []rune(strings.TrimSpace(lines[len(lines)-1]))
	return string(line[:min(len(line), width)])
}

// tail reads the last bytes of a file; of one that cannot be read, nothing.
func tail(path string, size int64) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > size {
		_, _ = file.Seek(-size, 2)
	}
	var data bytes.Buffer
	_, _ = data.ReadFrom(file)
	return data.Bytes()
}

// The lines of go test that tell of a failure, and how many after each are shown.
var failure = regexp.MustCompile(`Error Trace:|^\s*--- FAIL: |^panic: |^fatal error: |WARNING: DATA RACE|^FAIL\s|\*\*\* .*Error`)

const (
	after    = 14
	mostTold = 250
)

// whatFailed is the part of a log that tells why the step failed: around go test's failures, or else the end.
func whatFailed(log string) string {
	data, err := os.ReadFile(log)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := strings.SplitAfter(string(data), "\n")
	var told []string
	until := 0
	for i, line := range lines {
		if failure.MatchString(line) {
			until = i + after
		}
		if i < until {
			told = append(told, line)
		}
	}
	if len(told) == 0 {
		told = lines[max(0, len(lines)-60):]
	}
	return strings.Join(told[:min(len(told), mostTold)], "")
}
