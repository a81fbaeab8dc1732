// slurmlet-sandbox makes a Slurm cluster out of local pods on one machine, for
// trying Slurm and for tests. `slurmlet-sandbox help` says how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/node"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/server"
	"golang.org/x/sys/unix"
)

func main() {
	// The program is also what runs inside of a sandbox. That has to be on the
	// main goroutine, and to start nothing from it.
	if inside := inner(os.Args); inside != nil {
		os.Exit(inside())
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	done := make(chan int)
	go func() { done <- run(ctx, os.Args[1:]) }() // processes are never started from the main goroutine
	code := <-done
	stop()
	os.Exit(code)
}

// inner returns what an init, a launcher or a guard is to do, and nil for a user's command.
func inner(args []string) func() int {
	switch {
	case guest.Is(server.Init):
		return func() int { return server.Run("/") }
	case guest.Is(node.Init):
		return func() int { return node.Run("/") }
	case len(args) == 3 && args[1] == sandbox.VerbGuest:
		return func() int { return sandbox.LaunchGuest(args[2]) }
	case len(args) == 3 && args[1] == sandbox.VerbNative:
		return func() int { return server.Run(args[2]) }
	case len(args) == 3 && args[1] == sandbox.VerbGuard:
		return func() int { return sandbox.RunGuard(args[2]) }
	case len(args) == 3 && args[1] == kubecluster.VerbGuard:
		return func() int { return kubecluster.RunGuard(args[2]) }
	case len(args) == 3 && args[1] == kubecluster.VerbFabric:
		return func() int { return fabric.Run(args[2]) }
	case len(args) == 4 && args[1] == kubecluster.VerbNode:
		return func() int { return fabric.RunNode(args[2], args[3]) }
	}
	return nil
}

// run returns the exit code: a command's own, 2 for bad usage, 1 for what failed.
func run(ctx context.Context, args []string) int {
	code, err := dispatch(ctx, args)
	var usage usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		return 2
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		return 1
	}
	return code
}
