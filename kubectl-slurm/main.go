// Kubectl-slurm is a plugin of kubectl: kubectl slurm. It runs on an administrator's machine.
// As kubectl_complete-slurm, a link to it, it completes words for kubectl's completion.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/slurmlet/slurmlet/kubectl-slurm/commands"
)

// version is set by the linker.
var version = "development"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "kubectl_complete-slurm" {
		args = append([]string{"__complete"}, args...)
	}
	status := commands.Run(ctx, version, args)
	stop()
	os.Exit(status)
}
