package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/agent"
)

// probePaths are what a kubelet may ask the agent on its socket, by the names of its probes.
var probePaths = map[string]string{"startup": "/startupz", "readiness": "/readyz", "liveness": "/livez"}

// probe asks on the agent's socket, where no stranger is in the way. The kubelet shows what it prints.
func probe(args []string) int {
	if len(args) != 1 || probePaths[args[0]] == "" {
		return misused(fmt.Errorf("probe: want startup, readiness or liveness, not %q", args))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := agent.Ask(ctx, runDir(), probePaths[args[0]])
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet:", err)
		return agent.ExitUnavailable
	}
	defer response.Body.Close()
	_, _ = io.Copy(os.Stdout, response.Body) // the status code is what counts
	if response.StatusCode != http.StatusOK {
		return agent.ExitNotReady
	}
	return agent.ExitOK
}
