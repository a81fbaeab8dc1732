// Slurmlet-controller tells the agents of Slurm's pods what Kubernetes knows. Its settings are in
// the documentation of package controller.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/slurmlet/slurmlet/controller"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// version is set by the linker.
var version = "development"

const usage = `usage: slurmlet-controller           run, with settings from the environment
       slurmlet-controller version
`

func main() {
	switch {
	case len(os.Args) == 1:
		os.Exit(run(os.Environ(), os.Stdout))
	case len(os.Args) == 2 && os.Args[1] == "version":
		fmt.Println("slurmlet-controller", version)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(exitcode.Usage)
	}
}

// run lives until a signal ends it.
func run(environ []string, output io.Writer) int {
	settings, err := controller.FromEnv(environ)
	log := slog.New(slog.NewJSONHandler(output, &slog.HandlerOptions{Level: settings.LogLevel})).With("source", "slurmlet-controller")
	if err != nil {
		log.Error("the configuration has faults", "error", err.Error())
		return exitcode.Config
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := controller.Run(ctx, settings, version, log); err != nil {
		log.Error("the controller cannot go on", "error", err.Error())
		return exitcode.Failure
	}
	log.Info("exit", "status", exitcode.OK)
	return exitcode.OK
}
