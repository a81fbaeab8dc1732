package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"golang.org/x/sys/unix"
)

func (s *server) verbs() remote.Verbs {
	return remote.Verbs{
		"create":   {Do: s.create},
		"delete":   {Arguments: "POD GRACE", Do: s.delete},
		"resize":   {Arguments: "POD CPU MEMORY", Do: s.resize},
		"restart":  {Arguments: "POD GRACE", Do: s.restart},
		"kill":     {Arguments: "POD SIGNAL", Do: s.kill},
		"link":     {Arguments: "POD up|down", Do: s.link},
		"files":    {Arguments: "POD VOLUME", Do: s.files},
		"status":   {Do: s.status},
		"logs":     {Arguments: "POD FOLLOW", Do: s.logs},
		"exec":     {Arguments: "POD HOW COMMAND…", Do: s.exec},
		"shell":    {Arguments: "HOW COMMAND…", Do: s.shell},
		"elastic":  {Arguments: "CONTROLLER", Do: s.elastic},
		"shutdown": {Arguments: "GRACE", Do: s.shutdown},
	}
}

// Execute does what the client asked for.
func (s *server) Execute(ctx context.Context, c remote.Command) int { return s.verbs().Execute(ctx, c) }

func (s *server) create(_ context.Context, c remote.Command, _ []string) (int, error) {
	var spec pod.Spec
	in := json.NewDecoder(c.Stdin)
	in.DisallowUnknownFields()
	if err := in.Decode(&spec); err != nil {
		return 0, fmt.Errorf("cannot create pod: %v", err)
	}
	return 0, s.kubelet.Create(spec)
}

func (s *server) delete(_ context.Context, c remote.Command, args []string) (int, error) {
	grace, err := time.ParseDuration(args[1])
	if err != nil {
		return 0, fmt.Errorf("cannot delete pod: %v", err)
	}
	last, err := s.kubelet.Delete(args[0], grace)
	if err != nil {
		return 0, err
	}
	return 0, json.NewEncoder(c.Stdout).Encode(last)
}

func (s *server) restart(_ context.Context, _ remote.Command, args []string) (int, error) {
	grace, err := time.ParseDuration(args[1])
	if err != nil {
		return 0, fmt.Errorf("cannot restart pod: %v", err)
	}
	return 0, s.kubelet.Restart(args[0], grace)
}

func (s *server) resize(_ context.Context, _ remote.Command, args []string) (int, error) {
	cpu, cpuErr := strconv.ParseFloat(args[1], 64)
	memory, memoryErr := strconv.ParseInt(args[2], 10, 64)
	if err := errors.Join(cpuErr, memoryErr); err != nil {
		return 0, fmt.Errorf("cannot resize pod: %v", err)
	}
	return 0, s.kubelet.Resize(args[0], cpu, memory)
}

func (s *server) link(_ context.Context, _ remote.Command, args []string) (int, error) {
	if args[1] != "up" && args[1] != "down" {
		return 0, fmt.Errorf("cannot set link: want up or down, not %q", args[1])
	}
	return 0, s.kubelet.Link(args[0], args[1] == "up")
}

func (s *server) kill(_ context.Context, _ remote.Command, args []string) (int, error) {
	sig, err := signal(args[1])
	if err != nil {
		return 0, err
	}
	return 0, s.kubelet.Kill(args[0], sig)
}

func (s *server) files(_ context.Context, c remote.Command, args []string) (int, error) {
	var files map[string]pod.File
	if err := json.NewDecoder(c.Stdin).Decode(&files); err != nil {
		return 0, fmt.Errorf("cannot write files: %v", err)
	}
	return 0, s.kubelet.SetFiles(args[0], args[1], files)
}

func (s *server) status(_ context.Context, c remote.Command, _ []string) (int, error) {
	return 0, json.NewEncoder(c.Stdout).Encode(s.kubelet.Status())
}

func (s *server) shutdown(_ context.Context, _ remote.Command, args []string) (int, error) {
	grace, err := time.ParseDuration(args[0])
	if err != nil {
		return 0, fmt.Errorf("cannot shut down: %v", err)
	}
	s.making.end()
	return 0, s.kubelet.Shutdown(grace)
}

// signal understands TERM, SIGTERM and 15.
func signal(name string) (unix.Signal, error) {
	upper := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if sig := unix.SignalNum("SIG" + upper); sig != 0 {
		return sig, nil
	}
	var number int
	if _, err := fmt.Sscanf(upper, "%d", &number); err == nil && number > 0 && number <= 64 {
		return unix.Signal(number), nil
	}
	return 0, errors.New("no signal " + name + "; want a name such as TERM or a number from 1 to 64")
}
