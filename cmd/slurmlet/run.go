package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/pod/pid1"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// run plays a role until the container's end.
func run(name string, args []string) int {
	role, err := agent.ParseRole(name)
	if err != nil {
		return misused(err)
	}
	if len(args) > 0 {
		return misused(fmt.Errorf("role %s takes no arguments, but the environment: %q", role, args))
	}
	config, err := agent.FromEnv(role, os.Environ())
	output := newOutput()
	defer output.Flush(flushTime)
	log := newLog(output, config.LogLevel)
	if err != nil {
		logFaults(log, "the configuration has faults", err)
		return agent.ExitConfig
	}
	table := process.NewTable()
	code, err := pid1.Run(
		func(e pid1.Exit) { table.Reaped(e.PID, e.Status) },
		func() int { return live(config, table, log, output.Lost) },
	)
	if err != nil {
		log.Error(err.Error())
		return agent.ExitFailure
	}
	return code
}

func live(config agent.Config, table *process.Table, log *slog.Logger, lost func() int64) int {
	signals, stop := pid1.Signals() // not on the main thread, which each signal would cost more switches
	defer stop()
	code, err := agent.Run(context.Background(), agent.Options{
		Config: config, Version: version, Root: "/", Environ: os.Environ(),
		Table: table, Signals: signals, Observe: observer(log), LinesLost: lost,
	})
	if err != nil {
		logFaults(log, "cannot run "+string(config.Role), err)
	}
	log.Info("exit", "source", agent.Source, "status", code)
	return code
}
