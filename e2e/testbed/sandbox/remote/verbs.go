package remote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Failed is the exit code of a command that the server itself could not do.
const Failed = 125

// Verbs are what a server can do, by name.
type Verbs map[string]Verb

// Verb does one thing.
type Verb struct {
	// Arguments are how many follow the verb, and what they are: "POD GRACE". With
	// "…" at the end there may be more.
	Arguments string
	Do        func(ctx context.Context, c Command, args []string) (int, error)
}

// Execute does what the client asked for, and tells it of errors.
func (all Verbs) Execute(ctx context.Context, c Command) int {
	name, args := c.Args[0], c.Args[1:]
	verb, known := all[name]
	err := fmt.Errorf("no verb %q; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(all)), " "))
	code := 0
	if known {
		if err = verb.check(name, args); err == nil {
			code, err = verb.Do(ctx, c, args)
		}
	}
	if err != nil {
		fmt.Fprintln(c.Stderr, err)
		return Failed
	}
	return code
}

func (v Verb) check(name string, args []string) error {
	want := strings.Fields(v.Arguments)
	open := strings.HasSuffix(v.Arguments, "…")
	if len(args) == len(want) || open && len(args) > len(want) {
		return nil
	}
	return fmt.Errorf("%s: got %d arguments, want: %s", name, len(args), v.Arguments)
}
