package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts/planner"
)

// RecordName is the file of the record below slurmlet/ of SLURMLET_STATE_DIR.
const RecordName = "accounts.json"

// Sync compares one cluster's accounting with files, and changes it.
type Sync struct {
	Client Client
	// Cluster is its ClusterName. Record is where the record of what was made is kept.
	Cluster, Record string
}

// Outcome tells which steps of a plan Apply has made, and why it has stopped.
type Outcome struct {
	planner.Plan
	// Done and Left are the steps that were made, and those that were not.
	Done, Left []planner.Step
	// Why are sacctmgr's words about the first steps that were not made.
	Why []string
}

// ErrConfirm says that more would be removed than goes without a confirmation.
var ErrConfirm = errors.New("the removals are not confirmed")

// unanswered is an error of a look: slurmdbd does not say for certain what it has.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// Diff says what Apply would do.
func (s Sync) Diff(ctx context.Context, file *planner.File, prune bool) (planner.Plan, error) {
	plan, _, _, err := s.plan(ctx, file, prune)
	return plan, err
}

func (s Sync) plan(ctx context.Context, file *planner.File, prune bool) (planner.Plan, planner.Tables, planner.Record, error) {
	record, err := readRecord(s.Record, s.Cluster)
	if err != nil {
		return planner.Plan{}, nil, record, err
	}
	now, known, err := look(ctx, s.Client, s.Cluster, file)
	if err != nil {
		return planner.Plan{}, nil, record, unanswered{err}
	}
	if err := file.CheckNames(now, known).Err(); err != nil {
		return planner.Plan{}, nil, record, err
	}
	return planner.Compare(file, now, record, prune), now, record, nil
}

// rounds are how often Apply looks and acts: a user's default account can be set when the association is there.
const rounds = 3

// mostRefused are the steps of which sacctmgr's words are told.
const mostRefused = 10

// Apply makes all changes of a plan. The record has them before they are made. confirm is the number of removals that
// somebody has confirmed beside the file's, 0 for none.
func (s Sync) Apply(ctx context.Context, file *planner.File, prune bool, confirm int) (o Outcome, err error) {
	unlock, err := lock(ctx, s.Record, lockLimit)
	if err != nil {
		return o, err
	}
	defer unlock()
	plan, now, record, err := s.plan(ctx, file, prune)
	if err != nil {
		return o, err
	}
	o.Plan = plan
	if plan.Confirm && plan.Removals != confirm && (plan.Removals != file.Confirm || record.Confirmed == file.Confirm) {
		return o, fmt.Errorf("%w: %d would be removed (%s); confirm: %d in the file, or -confirm %d, has them go", ErrConfirm,
			plan.Removals, plan.Removed, plan.Removals, plan.Removals)
	}
	for range rounds {
		if plan.Empty() {
			break
		}
		if record = record.Note(&plan); err == nil {
			err = writeRecord(s.Record, record)
		}
		if err != nil {
			return o, err
		}
		fault := s.Client.ChangeAccounting(ctx, commands(plan.Steps()))
		if now, _, err = look(ctx, s.Client, s.Cluster, file); err != nil {
			return o, unanswered{fmt.Errorf("nobody knows which changes were made: %w", errors.Join(err, fault))}
		}
		before := len(plan.Changes)
		plan = planner.Compare(file, now, record, prune)
		if len(plan.Changes) >= before || ctx.Err() != nil {
			break
		}
	}
	o.Left, o.Done = plan.Steps(), o.Without(&plan).Steps()
	o.Why = s.refusals(ctx, o.Left)
	record = record.Settle(file, now)
	if record.Confirmed = file.Confirm; len(o.Left) > 0 {
		record.Confirmed = 0
	}
	return o, errors.Join(writeRecord(s.Record, record), ctx.Err())
}

func commands(steps []planner.Step) (all []string) {
	for _, step := range steps {
		all = append(all, step.Command)
	}
	return all
}

// refusals tries the first steps once more, one by one: sacctmgr's words about many do not say which it means.
func (s Sync) refusals(ctx context.Context, left []planner.Step) (why []string) {
	for _, step := range left[:min(len(left), mostRefused)] {
		if err := s.Client.ChangeAccount(ctx, step.Command); err != nil {
			why = append(why, step.Words+": "+err.Error())
		}
	}
	return why
}
