package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// diff prints what the sources of the configuration hold beside what slurmctld
// runs with. The exit status is 1 when there is a difference, as of diff(1).
func diff(args []string) int {
	if code, done := parse(flag.NewFlagSet("diff", flag.ContinueOnError), args); done {
		return code
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := agent.Ask(ctx, runDir(), "/diff")
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet:", err)
		return agent.ExitUnavailable
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		fmt.Fprintln(os.Stderr, "slurmlet: "+noConf)
		return agent.ExitUsage
	}
	var d reconfig.Difference
	if err := json.NewDecoder(response.Body).Decode(&d); err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet: cannot read the agent's answer:", err)
		return agent.ExitUnavailable
	}
	if d.Empty() {
		return agent.ExitOK
	}
	printDifference(d)
	return agent.ExitFailure
}

func printDifference(d reconfig.Difference) {
	for _, c := range d.Changes {
		fmt.Println(c)
	}
	for _, name := range d.Files {
		fmt.Println(name + ": another content")
	}
	if d.Error != "" {
		fmt.Println(d.Error)
	}
	if d.Refused != nil {
		for _, why := range d.Refused.Why {
			fmt.Println("refused:", why)
		}
	}
}
