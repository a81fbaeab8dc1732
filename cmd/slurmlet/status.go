package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/agent"
)

// status prints what the agent in this container says of itself. The exit
// status says whether it is Ready.
func status(args []string) int {
	flags := flag.NewFlagSet("status", flag.ContinueOnError)
	format := flags.String("o", "text", "output `format`: text or json")
	if code, done := parse(flags, args); done {
		return code
	}
	if *format != "text" && *format != "json" {
		return misused(fmt.Errorf("status: want -o text or -o json, not %q", *format))
	}
	s, err := askStatus()
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet:", err)
		return agent.ExitUnavailable
	}
	print := s.WriteText
	if *format == "json" {
		print = s.WriteJSON
	}
	if err := print(os.Stdout); err != nil {
		return agent.ExitFailure
	}
	if !s.Serving() {
		return agent.ExitNotReady
	}
	return agent.ExitOK
}

func askStatus() (agent.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := agent.Ask(ctx, runDir(), "/status")
	if err != nil {
		return agent.Status{}, err
	}
	defer response.Body.Close()
	var s agent.Status
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		return agent.Status{}, fmt.Errorf("cannot read the agent's answer: %w", err)
	}
	return s, nil
}

func runDir() string { return cmp.Or(os.Getenv("SLURMLET_RUN_DIR"), agent.DefaultRunDir) }
