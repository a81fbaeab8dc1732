package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"time"

	"github.com/slurmlet/slurmlet/agent"
)

// deadline lets the agent know when the pod is killed, sooner than its grace period says.
func deadline(args []string) int {
	flags := flag.NewFlagSet("deadline", flag.ContinueOnError)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return agent.ExitOK
	case err != nil:
		return agent.ExitUsage
	case flags.NArg() != 1:
		return misused(errors.New("deadline: want one duration or time"))
	}
	at, err := parseWhen(flags.Arg(0), time.Now())
	if err != nil {
		return misused(fmt.Errorf("deadline: cannot use %q: %w", flags.Arg(0), err))
	}
	query := url.Values{"at": {at.Format(time.RFC3339Nano)}}
	return askAgent("/deadline?"+query.Encode(), "the agent reckons with SIGKILL at "+at.Format(time.RFC3339), noNode)
}

// parseWhen takes a duration from now, or a time.
func parseWhen(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, errors.New("want a duration such as 90s, or a time as in 2006-01-02T15:04:05Z")
}
