package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// patience is how long a command may go on after SIGTERM: tests remove what they made.
const patience = 30 * time.Second

// shares are what the sessions of steps get of the processors (sched(7), autogroup, where each cluster of native and limits
// is a session with 0): three times a cluster's share for -5, five times for -7, six times for -8, a third for 5. urgent:
// with ten times, commands of Slurm in guests gave up after their 10 s. quiet: with a cluster's share, a kube-apiserver did
// not answer its controllers for 10 s, and none of them led. loud: the clusters of short are in its session. alone: up to
// eight small clusters of native are. steady: kube, the longest step, waits for the images, which computed in one of their
// five minutes. calm has a cluster's, unless a step runs alone.
var shares = map[kind]int{loud: -5, urgent: -7, quiet: -5, steady: -5, alone: -8, calm: usualShare}

const usualShare, lowestShare = 0, 5

// share sets the share of a process' session. Only root may have more than 0, and not every kernel has autogroups.
func share(pid, nice int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(nice)), 0)
}

// command runs a program whose output goes to a file, in a session of its own, whose process group began is told of and ends
// with it. It returns the CPU time of what the program has waited for.
func command(ctx context.Context, limit time.Duration, log string, k kind, began func(group int), program string, args ...string) (cpu time.Duration, err error) {
	out, err := os.Create(log)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not over after %v", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = patience
	if err = cmd.Start(); err == nil {
		share(cmd.Process.Pid, shares[k])
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

// groups are the process groups of a process and of all that descend from it: a make of the kernel has one of its own.
func groups(pid int) []int {
	all, err := procfs.AllProcs()
	if err != nil {
		return []int{pid}
	}
	children, group := map[int][]int{}, map[int]int{pid: pid}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil {
			children[stat.PPID] = append(children[stat.PPID], p.PID)
			group[p.PID] = stat.PGRP
		}
	}
	var found []int
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		if g := group[todo[0]]; !slices.Contains(found, g) {
			found = append(found, g)
		}
		todo = append(todo, children[todo[0]]...)
	}
	return found
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
var failure = regexp.MustCompile(`Error Trace:|^\s*--- FAIL: |^panic: |^fatal error: |WARNING: DATA RACE|^FAIL\s`)

const (
	after    = 30
	mostTold = 400
)

// complaint is testify's: what a test wanted, which one it was, and what it says of it.
var complaint = regexp.MustCompile(`(?s)Error:\s+(.*?)\n\s+Test:\s+(\S+)\n(?:\s+Messages:\s+([^\n]*(?:\n +\t +\t[^\n]*)*))?`)

// inShort has a line for each complaint of a test, for readers who see the end of the output only.
func inShort(log string) (lines []string) {
	const most, width = 10, 600
	data, err := os.ReadFile(log)
	if err != nil {
		return nil
	}
	for _, m := range complaint.FindAllStringSubmatch(string(data), most) {
		line := []rune(m[2] + ": " + strings.Join(strings.Fields(m[1]+" "+m[3]), " "))
		lines = append(lines, string(line[:min(len(line), width)]))
	}
	return lines
}

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
