package slurm

import (
	"context"
	"errors"
	"os/exec"
)

// Outgoing is what slurmctld has to send nodes, counted in messages: its agents,
// in Slurm's words (sdiag(1)).
type Outgoing struct {
	// Sending are on their way, or without an answer yet: at most 30 s, or MessageTimeout.
	Sending int
	// Queued wait for their turn, which takes seconds on a busy machine, or have
	// failed and are sent once more after a minute; not so launches of batch jobs.
	Queued int
}

// Outgoing asks "sdiag --json".
func (s Scontrol) Outgoing(ctx context.Context) (Outgoing, error) {
	out, err := s.command(ctx, "sdiag", exec.CommandContext(ctx, s.Sdiag, "--json"))
	if err != nil {
		return Outgoing{}, err
	}
	var answer struct {
		Statistics struct {
			Agents *int `json:"agent_count"`
			Queue  *int `json:"agent_queue_size"`
		} `json:"statistics"`
	}
	if err := read("sdiag", out, &answer); err != nil {
		return Outgoing{}, err
	}
	agents, queue := answer.Statistics.Agents, answer.Statistics.Queue
	if agents == nil || queue == nil {
		return Outgoing{}, errors.New("cannot read the answer of sdiag: there is no agent_count in it")
	}
	return Outgoing{Sending: *agents, Queued: *queue}, nil
}

// Reserve runs "scontrol create reservation". Duration is in minutes; jobs that run are
// left alone, and so are other reservations.
func (s Scontrol) Reserve(ctx context.Context, name string) error {
	_, err := s.run(ctx, "create", "reservation", "reservationname="+name, "starttime=now", "duration=1",
		"users=root", "nodes=ALL", "flags=ignore_jobs,overlap")
	return err
}

// Unreserve runs "scontrol delete".
func (s Scontrol) Unreserve(ctx context.Context, name string) error {
	_, err := s.run(ctx, "delete", "reservationname="+name)
	return err
}
