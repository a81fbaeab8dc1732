// Package containers finds out whether jobs' containers can be made on the node (internal/jobcontainer), how many run, and
// what their images take.
package containers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/child"
)

// Feature is what a node has in Slurm that can make containers, as in srun's --constraint.
const Feature = "containers"

// Status is what the node has told when its agent started, which does not change, and what is there now.
type Status struct {
	// Lacks is why a container of a directory cannot be made, empty where it can. SquashfsLacks is why one of a
	// squashfs file, which a registry's image is kept as, cannot.
	Lacks         string `json:"lacks,omitempty"`
	SquashfsLacks string `json:"squashfsLacks,omitempty"`
	// Usage is nil where nobody has looked.
	Usage *Usage `json:"usage,omitempty"`
}

// Ready says whether containers of directories can be made, which all others need, too. It takes nil.
func (s *Status) Ready() bool { return s != nil && s.Lacks == "" }

// Squashfs says whether those of squashfs files and of registries' images can be made. It takes nil.
func (s *Status) Squashfs() bool { return s.Ready() && s.SquashfsLacks == "" }

func (s *Status) String() string {
	switch {
	case s.Lacks != "":
		return "cannot be made: " + s.Lacks
	case s.SquashfsLacks != "":
		return "can be made of directories, and not of squashfs files and registries' images: " + s.SquashfsLacks
	}
	return "can be made of directories, squashfs files and registries' images"
}

// limit is how long the probe may take, and slurmd waits for it. On an idle machine it takes some 20 ms.
const limit = 10 * time.Second

// Probe has the program make a container of an empty directory, as nobody. It is nil for a node that makes none, whose
// program is empty.
func Probe(ctx context.Context, program string) *Status {
	if program == "" {
		return nil
	}
	said, err := child.Ask(ctx, limit, program, "probe")
	if err != nil {
		return &Status{Lacks: strings.TrimPrefix(err.Error(), "slurmlet: ")}
	}
	s, err := parse(said)
	if err != nil {
		return &Status{Lacks: program + " probe: " + err.Error()}
	}
	return &s
}

// parse reads what `slurmlet-container probe` prints of a node that can make containers.
func parse(said string) (Status, error) {
	var s Status
	answers := map[string]string{}
	for line := range strings.Lines(said) {
		name, answer, _ := strings.Cut(strings.TrimSpace(line), ": ")
		answers[name] = answer
	}
	for name, lacks := range map[string]*string{"directories": &s.Lacks, "squashfs files": &s.SquashfsLacks} {
		why, no := strings.CutPrefix(answers[name], "no: ")
		switch {
		case no && why != "":
			*lacks = why
		case answers[name] != "yes":
			return Status{}, errors.New("it does not say whether it makes containers of " + name)
		}
	}
	return s, nil
}
