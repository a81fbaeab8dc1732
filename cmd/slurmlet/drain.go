package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	ossignal "os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
)

// drain keeps new jobs from this container's node.
func drain(args []string) int {
	flags := flag.NewFlagSet("drain", flag.ContinueOnError)
	reason := flags.String("reason", "by hand", "the `text` that sinfo -R shows after \"slurmlet drain: \"")
	wait := flags.Bool("wait", false, "wait until no job holds the node")
	if code, done := parse(flags, args); done {
		return code
	}
	if *reason == "" || strings.ContainsAny(*reason, "\n\r") {
		return misused(fmt.Errorf("drain: want a reason of one line, not %q", *reason))
	}
	query := url.Values{"reason": {*reason}}
	if *wait {
		query.Set("wait", "1")
	}
	done := "the node is drained: " + *reason
	if *wait {
		done += "; no job holds it"
	}
	return askAgent("/drain?"+query.Encode(), done, noNode)
}

// resume takes the node back from drain.
func resume(args []string) int {
	if code, done := parse(flag.NewFlagSet("resume", flag.ContinueOnError), args); done {
		return code
	}
	return askAgent("/resume", "the node is resumed", noNode)
}

// parse reports whether the program is done, and with which status.
func parse(flags *flag.FlagSet, args []string) (code int, done bool) {
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return agent.ExitOK, true
	case err != nil:
		return agent.ExitUsage, true
	case flags.NArg() > 0:
		return misused(fmt.Errorf("%s: no arguments but flags, not %q", flags.Name(), flags.Args())), true
	}
	return agent.ExitOK, false
}

const noNode = "this container is no node: its agent does not run slurmd"

// askAgent has the agent do something, and prints that it is done. What the agent refuses is printed,
// and whose it is to do.
func askAgent(path, done, whose string) int {
	ctx, stop := ossignal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	response, err := agent.Tell(ctx, runDir(), path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet:", err)
		return agent.ExitUnavailable
	}
	defer response.Body.Close()
	var answer agent.Answer
	switch err := json.NewDecoder(response.Body).Decode(&answer); {
	case response.StatusCode == http.StatusNotFound:
		fmt.Fprintln(os.Stderr, "slurmlet: "+whose)
		return agent.ExitUsage
	case err != nil:
		fmt.Fprintln(os.Stderr, "slurmlet: cannot read the agent's answer:", err)
		return agent.ExitUnavailable
	case answer.Error != "":
		fmt.Fprintln(os.Stderr, "slurmlet:", answer.Error)
		return agent.ExitFailure
	}
	fmt.Println(done)
	return agent.ExitOK
}
