package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// records is a slurmctld's, with the answers that 24.11.5 and 26.05.5 give to lists: each record
// that can be changed is, the error is one for all, and only a deletion names the others.
type records struct {
	// begun counts the commands that were run or wait for the lock.
	begun atomic.Int64
	lock  sync.Mutex
	// states are idle, busy, drained or down, by the names of the nodes.
	states map[string]string
	// jobs are the nodes that jobs hold, and killed those whose jobs were ended by the state DOWN.
	jobs   map[string]bool
	killed []string
	// commands are those that were run.
	commands []string
	// silent: nobody answers. mute: a deletion does not name what is kept.
	silent, mute bool
	// claims name nodes. A job is set right when it was told its names anew.
	claims []slurm.Claim
	right  map[string]bool
	// comes names nodes from the next deletion on.
	comes []slurm.Claim
	// unclear: the names of nodes cannot be read.
	unclear bool
	// back are names whose records are made anew after the next deletion.
	back []string
}

func newRecords(text string) *records {
	r := &records{states: map[string]string{}, jobs: map[string]bool{}}
	for pair := range strings.FieldsSeq(text) {
		name, state, _ := strings.Cut(pair, "=")
		r.put(name, state)
	}
	return r
}

func (r *records) put(name, state string) {
	r.states[name] = state
	if state == "busy" {
		r.jobs[name] = true
	}
}

// fallSilent: nobody answers from now on.
func (r *records) fallSilent() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.silent = true
}

// ran are the commands that were run.
func (r *records) ran() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.commands)
}

// changes are the commands without the questions who names nodes.
func (r *records) changes() []string {
	return slices.DeleteFunc(r.ran(), func(command string) bool { return command == "claims" || command == "jobs" })
}

func (r *records) String() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.states)) {
		all = append(all, name+"="+r.states[name])
	}
	return strings.Join(all, " ")
}

// each calls change for each name, and returns those that it refuses with the last error.
func (r *records) each(command, names string, change func(name, state string, known bool) error) (refused []string, err error) {
	r.begun.Add(1)
	r.lock.Lock()
	defer r.lock.Unlock()
	r.commands = append(r.commands, strings.TrimSpace(command+" "+names))
	if r.silent {
		return nil, fmt.Errorf("%w: told by nobody", slurm.ErrUnreachable)
	}
	if names == "" {
		return nil, nil
	}
	list, err := hostlist.Parse(names)
	if err != nil {
		return nil, err
	}
	for name := range list.All() {
		state, known := r.states[name]
		if wrong := change(name, state, known); wrong != nil {
			refused, err = append(refused, name), wrong
		}
	}
	return refused, err
}

var errUnknown = errors.New("scontrol: Invalid node name specified")

func (r *records) DeleteNodes(_ context.Context, names string) (string, error) {
	refused, err := r.each("delete", names, func(name, state string, known bool) error {
		switch {
		case !known:
			return errUnknown
		case r.jobs[name], state == "reserved":
			return slurm.ErrBusy
		}
		delete(r.states, name)
		r.claims, r.comes = append(r.claims, r.comes...), nil
		for _, c := range r.claims {
			if found, err := slurm.Named([]slurm.Claim{c}, []string{name}); err == nil && found[name] != "" {
				delete(r.right, cmp.Or(c.Job, c.Reservation))
			}
		}
		if slices.Contains(r.back, name) {
			r.states[name] = "idle"
		}
		return nil
	})
	if r.mute {
		refused = nil
	}
	return hostlist.Of(slices.Values(refused)).String(), err
}

func (r *records) DeleteNode(ctx context.Context, name string) error {
	_, err := r.DeleteNodes(ctx, name)
	if errors.Is(err, errUnknown) {
		return slurm.ErrNoNode
	}
	return err
}

func (r *records) Recorded(_ context.Context, names string) (known []string, err error) {
	_, err = r.each("show", names, func(name, _ string, is bool) error {
		if is {
			known = append(known, name)
		}
		return nil
	})
	return known, err
}

func (r *records) set(command, names, to string) error {
	_, err := r.each(command, names, func(name, state string, known bool) error {
		switch {
		case !known:
			return errUnknown
		case to == "idle" && state != "drained" && state != "down":
			return errors.New("scontrol: Invalid node state specified")
		}
		if to == "down" && r.jobs[name] {
			delete(r.jobs, name)
			r.killed = append(r.killed, name)
		}
		r.states[name] = to
		return nil
	})
	return err
}

func (r *records) DrainNode(_ context.Context, names, reason string) error {
	return r.set("drain:"+reason, names, "drained")
}

func (r *records) FailNode(_ context.Context, names, reason string) error {
	return r.set("fail:"+reason, names, "down")
}

func (r *records) PowerDownNode(_ context.Context, names, reason string) error {
	return r.set("power-down:"+reason, names, "drained")
}

func (r *records) PowerOffNode(_ context.Context, names, reason string) error {
	return r.set("power-off:"+reason, names, "off")
}

func (r *records) ReinstateNode(_ context.Context, names string) error {
	return r.set("resume", names, "idle")
}

func (r *records) Claims(context.Context) ([]slurm.Claim, error) { return r.claimed("claims") }

func (r *records) JobClaims(context.Context) ([]slurm.Claim, error) {
	all, err := r.claimed("jobs")
	return slices.DeleteFunc(all, func(c slurm.Claim) bool { return c.Reservation != "" }), err
}

func (r *records) claimed(command string) (all []slurm.Claim, err error) {
	_, err = r.each(command, "", func(string, string, bool) error { return nil })
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.unclear {
		return nil, errors.New("squeue says what nobody can read")
	}
	all = slices.Clone(r.claims)
	for _, name := range slices.Sorted(maps.Keys(r.states)) {
		if r.jobs[name] {
			all = append(all, slurm.Claim{Job: "of " + name, Holds: name})
		}
	}
	return all, err
}

func (r *records) RenewNode(_ context.Context, name string, parameters []string, reason string) error {
	_, err := r.each("renew:"+strings.Join(parameters, " ")+":"+reason, name, func(name, _ string, known bool) error {
		if known {
			delete(r.states, name) // as 24.11 does
			return errors.New("Node already exists in the node table")
		}
		r.states[name] = "down"
		return nil
	})
	return err
}

func (r *records) RenewClaim(_ context.Context, c *slurm.Claim) error {
	who := cmp.Or(c.Job, c.Reservation)
	_, err := r.each("rename "+who, c.Nodes+c.Excluded, func(_, _ string, known bool) error {
		if !known {
			return errUnknown
		}
		if r.right == nil {
			r.right = map[string]bool{}
		}
		r.right[who] = true
		return nil
	})
	return err
}
