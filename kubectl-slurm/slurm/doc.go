// Package slurm asks Slurm and the agents of a cluster's pods what an admin wants to know, by commands that run in a
// pod, and reads their answers. It starts nothing itself: whoever uses it brings an Asker.
//
// internal/slurm asks the same daemons from inside a pod. This package asks other questions, from a machine that may be
// a Mac, so it shares no code that needs Linux.
package slurm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Asker runs a command where slurmctld is, and returns what it prints. No shell sees the arguments.
type Asker interface {
	Ask(ctx context.Context, command ...string) (string, error)
}

// Refusal is the error of a command that has ended with another status than 0.
type Refusal struct {
	Command []string
	Status  int
	// Said is what the command has written to its standard error, and to its output if that is all.
	Said string
}

func (r *Refusal) Error() string {
	said := strings.TrimSpace(r.Said)
	if said == "" {
		said = fmt.Sprintf("exit status %d", r.Status)
	}
	return strings.Join(r.Command, " ") + ": " + said
}

// Number is an optional one in Slurm's JSON.
type Number struct {
	Set      bool  `json:"set"`
	Infinite bool  `json:"infinite"`
	Number   int64 `json:"number"`
}

// Time is zero for a time that is not known.
func (n Number) Time() time.Time {
	if !n.Set || n.Number <= 0 {
		return time.Time{}
	}
	return time.Unix(n.Number, 0)
}

// Is says whether it is one, and more than 0.
func (n Number) Is() bool { return n.Set && !n.Infinite && n.Number > 0 }

// UnmarshalJSON takes {"set": …, "infinite": …, "number": …}, and a plain number.
func (n *Number) UnmarshalJSON(text []byte) error {
	var v struct {
		Set      bool    `json:"set"`
		Infinite bool    `json:"infinite"`
		Number   float64 `json:"number"`
	}
	if err := json.Unmarshal(text, &v.Number); err == nil {
		*n = Number{Set: true, Number: int64(v.Number)}
		return nil
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("cannot read a number: %w", err)
	}
	*n = Number{v.Set, v.Infinite, int64(v.Number)}
	return nil
}

// ask has a command of Slurm's answer in JSON.
func ask(ctx context.Context, a Asker, into any, command ...string) error {
	out, err := a.Ask(ctx, command...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", strings.Join(command, " "), err)
	}
	return nil
}
