package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/url"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/programs"
)

// runAs is the program that slurmctld has run by its link, and the link's directory; empty for the
// command line.
func runAs() (p programs.Program, dir string) {
	p = programs.Program(filepath.Base(os.Args[0]))
	if !slices.Contains(programs.All(), p) {
		return "", ""
	}
	return p, filepath.Dir(executed(os.Args[0]))
}

// executed is the path that was given to execve(2). slurmctld 26.05 gives ResumeProgram and
// SuspendProgram no path in argv[0], and a PATH may be missing.
func executed(fallback string) string {
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return fallback
	}
	const atExecFn, word = 31, unsafe.Sizeof(uintptr(0))
	for ; len(auxv) >= int(2*word); auxv = auxv[2*word:] {
		if binary.NativeEndian.Uint64(auxv) != atExecFn {
			continue
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			return fallback
		}
		defer memory.Close()
		text := make([]byte, unix.PathMax)
		n, _ := memory.ReadAt(text, int64(binary.NativeEndian.Uint64(auxv[word:])))
		if path, _, found := bytes.Cut(text[:n], []byte{0}); found && filepath.IsAbs(string(path)) {
			return string(path)
		}
	}
	return fallback
}

// runProgram is what slurmctld waits for. A PrologSlurmctld that fails would have its job held, so
// wait-nodes succeeds whatever the agent does: slurmctld itself finds out when the nodes are up.
func runProgram(p programs.Program, dir string) int {
	ctx, stop := ossignal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if p != programs.WaitNodes {
		if err := programs.Notify(ctx, dir, p); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", p, err)
			return agent.ExitUnavailable
		}
		return agent.ExitOK
	}
	job := os.Getenv("SLURM_JOB_ID")
	if job == "" {
		fmt.Fprintf(os.Stderr, "%s: want SLURM_JOB_ID: slurmctld runs this program, as PrologSlurmctld\n", p)
		return agent.ExitUsage
	}
	query := url.Values{"job": {job}, "nodes": {os.Getenv("SLURM_JOB_NODELIST")}, "start": {os.Getenv("SLURM_JOB_START_TIME")}}
	if err := programs.WaitForNodes(ctx, dir, query.Encode()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: job %s: %v\n", p, job, err)
	}
	return agent.ExitOK
}
