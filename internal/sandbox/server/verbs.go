package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/sandbox/pod"
	"github.com/slurmlet/slurmlet/internal/sandbox/remote"
	"golang.org/x/sys/unix"
)

// Failed is the exit code of a command that the sandbox itself could not do.
const Failed = 125

// verb does one thing. Its arguments are what follows the verb.
type verb struct {
	arguments string // how many, and what they are
	do        func(s *server, ctx context.Context, c remote.Command, args []string) (int, error)
}

var verbs = map[string]verb{
	"create":   {"", (*server).create},
	"delete":   {"POD GRACE", (*server).delete},
	"resize":   {"POD CPU MEMORY", (*server).resize},
	"restart":  {"POD GRACE", (*server).restart},
	"kill":     {"POD SIGNAL", (*server).kill},
	"link":     {"POD up|down", (*server).link},
	"files":    {"POD VOLUME", (*server).files},
	"status":   {"", (*server).status},
	"logs":     {"POD FOLLOW", (*server).logs},
	"exec":     {"POD HOW COMMAND…", (*server).exec},
	"shell":    {"HOW COMMAND…", (*server).shell},
	"shutdown": {"GRACE", (*server).shutdown},
}

// Execute does what the client asked for.
func (s *server) Execute(ctx context.Context, c remote.Command) int {
	v, known := verbs[c.Args[0]]
	err := fmt.Errorf("no verb %q; there are: %s", c.Args[0], strings.Join(slices.Sorted(maps.Keys(verbs)), " "))
	code := 0
	if known {
		if err = v.check(c.Args[0], c.Args[1:]); err == nil {
			code, err = v.do(s, ctx, c, c.Args[1:])
		}
	}
	if err != nil {
		fmt.Fprintln(c.Stderr, err)
		return Failed
	}
	return code
}

func (v verb) check(name string, args []string) error {
	want := strings.Fields(v.arguments)
	open := strings.HasSuffix(v.arguments, "…")
	if len(args) == len(want) || open && len(args) > len(want) {
		return nil
	}
	return fmt.Errorf("%s: got %d arguments, want: %s", name, len(args), v.arguments)
}

func (s *server) create(_ context.Context, c remote.Command, _ []string) (int, error) {
	var spec pod.Spec
	in := json.NewDecoder(c.Stdin)
	in.DisallowUnknownFields()
	if err := in.Decode(&spec); err != nil {
		return 0, fmt.Errorf("cannot create pod: %v", err)
	}
	return 0, s.kubelet.Create(spec)
}

func (s *server) delete(_ context.Context, _ remote.Command, args []string) (int, error) {
	grace, err := time.ParseDuration(args[1])
	if err != nil {
		return 0, fmt.Errorf("cannot delete pod: %v", err)
	}
	return 0, s.kubelet.Delete(args[0], grace)
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
