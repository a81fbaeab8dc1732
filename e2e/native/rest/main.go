// Rest drives slurmrestd as a program of somebody else's does, with
// SlinkyProject's slurm-client: it submits a job, finds it, cancels another, and
// lists the nodes. It prints what it found as JSON. The server is its argument,
// the token is SLURM_JWT.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	api "github.com/SlinkyProject/slurm-client/api/v0042"
	client "github.com/SlinkyProject/slurm-client/pkg/client/api/v0042"
)

// found is what the test looks at.
type found struct {
	Nodes             []string
	Submitted, Listed string
	Cancelled         string
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f, err := drive(ctx, os.Args[1], os.Getenv("SLURM_JWT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(f)
}

func drive(ctx context.Context, server, token string) (found, error) {
	var f found
	c, err := client.NewSlurmClient(server, token, nil)
	if err != nil {
		return f, err
	}
	nodes, err := c.ListNodes(ctx)
	if err != nil {
		return f, fmt.Errorf("cannot list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		f.Nodes = append(f.Nodes, *n.Name)
	}
	id, err := submit(ctx, c, false)
	if err != nil {
		return f, fmt.Errorf("cannot submit: %w", err)
	}
	f.Submitted = id
	jobs, err := c.ListJobInfo(ctx)
	if err != nil {
		return f, fmt.Errorf("cannot list jobs: %w", err)
	}
	for _, j := range jobs.Items {
		if strconv.Itoa(int(*j.JobId)) == id {
			f.Listed = *j.UserName
		}
	}
	if f.Cancelled, err = submit(ctx, c, true); err != nil {
		return f, fmt.Errorf("cannot submit: %w", err)
	}
	if err := c.DeleteJobInfo(ctx, f.Cancelled); err != nil {
		return f, fmt.Errorf("cannot cancel: %w", err)
	}
	return f, nil
}

func submit(ctx context.Context, c client.ClientInterface, hold bool) (string, error) {
	script, dir := "#!/bin/sh\ntrue\n", "/tmp"
	id, err := c.CreateJobInfo(ctx, api.V0042JobSubmitReq{Job: &api.V0042JobDescMsg{
		Script: &script, CurrentWorkingDirectory: &dir, Environment: &api.V0042StringArray{"PATH=/usr/bin:/bin"}, Hold: &hold,
	}})
	if err != nil {
		return "", err
	}
	return strconv.Itoa(int(*id)), nil
}
