// Package drains sets and lifts the node's drains in the names of their owners (internal/slurm/reasons). It says who may
// set and lift which: nobody lifts or replaces a drain of somebody else's.
//
// The drains of the node's own machine (internal/lifecycle/node), such as that of a pod on its way down, are none of these:
// the machine has judged the record when it asks for one.
package drains

import (
	"context"
	"fmt"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// Drains changes the drain of one node, and keeps nothing between two calls.
type Drains struct {
	// Node is its name in Slurm, Elastic says that slurmctld itself starts and ends it.
	Node    string
	Elastic bool
	Slurm   *slurm.Questions
	// Make has slurmctld change the record. slurmctld's agent makes one command of the same change of many nodes.
	Make func(ctx context.Context, verb node.Verb, reason, conf string) error
}

// rule says how an owner sets its drains.
type rule struct {
	// renews says that a new reason replaces the owner's last one.
	renews bool
	// suspends says that an elastic node's pod goes with the drain: the next job gets another pod. A node that goes
	// already stays as it is.
	suspends bool
	// shared says that many nodes are drained for the same reason at the same time.
	shared bool
}

// rules has the owners that set drains here.
var rules = map[reasons.Owner]rule{
	reasons.Agent:      {shared: true},
	reasons.Command:    {renews: true},
	reasons.Kubernetes: {renews: true, suspends: true},
	reasons.Disk:       {suspends: true},
	reasons.Pods:       {renews: true},
}

// ForeignError says that a drain of somebody else's stands, and stays.
type ForeignError struct{ Reason string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("somebody else has drained the node, and that stays: %s", e.Reason)
}

// Set drains the node. The reason begins as the owner's do. changed says that it was not drained for that reason before. The
// error is a ForeignError where somebody else has drained the node.
func (d *Drains) Set(ctx context.Context, owner reasons.Owner, reason string) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.Slurm.Limit())
	defer cancel()
	by := rules[owner]
	record, err := d.record(ctx)
	if err != nil || by.suspends && d.goes(record) {
		return false, err
	}
	switch {
	case isOf(record, owner) && (!by.renews || record.Reason == reason):
		return false, nil
	case !isOf(record, owner) && isForeign(record, owner):
		return false, &ForeignError{record.Reason}
	case by.suspends && d.Elastic && record.Elastic() && !record.Is("POWER_DOWN", "POWERING_UP"):
		err = d.Make(ctx, node.PowerDownNode, reason, "")
	case by.shared:
		err = d.Make(ctx, node.DrainNode, reason, "")
	default: // no other node has the same reason
		err = d.Slurm.DrainNode(ctx, d.Node, reason)
	}
	return err == nil, err
}

// Lift lifts the owner's drain. changed says that there was one. The error is a ForeignError where the node is drained by
// somebody else.
func (d *Drains) Lift(ctx context.Context, owner reasons.Owner) (changed bool, err error) {
	return d.LiftIf(ctx, owner, func(string) bool { return true })
}

// LiftIf lifts the owner's drain if its reason is one to lift.
func (d *Drains) LiftIf(ctx context.Context, owner reasons.Owner, is func(reason string) bool) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.Slurm.Limit())
	defer cancel()
	record, err := d.record(ctx)
	switch {
	case err != nil, rules[owner].suspends && d.goes(record), !record.Drained():
		return false, err
	case !isOf(record, owner):
		return false, &ForeignError{record.Reason}
	case !is(record.Reason):
		return false, nil
	}
	err = d.Make(ctx, node.ResumeNode, "", "")
	return err == nil, err
}

// Fail sets the node DOWN, which ends whatever holds it. The caller has drained the node and has looked for jobs that live.
func (d *Drains) Fail(ctx context.Context, reason string) error {
	return d.Make(ctx, node.FailNode, reason, "")
}

// record is slurmctld's.
func (d *Drains) record(ctx context.Context) (*slurm.Node, error) {
	record, err := d.Slurm.Node(ctx, d.Node)
	if err == nil && record == nil {
		err = slurm.ErrNoRecord
	}
	return record, err
}

// goes says whether an elastic node is on its way down, or off.
func (d *Drains) goes(record *slurm.Node) bool { return d.Elastic && record.Off() }

func isOf(record *slurm.Node, owner reasons.Owner) bool {
	return record.Drained() && reasons.Of(record.Reason) == owner
}

// isForeign says whether a drain that is not the owner's must stay. An agent's own drain also replaces one of slurmctld's
// that is nobody's wish (node.Foreign).
func isForeign(record *slurm.Node, owner reasons.Owner) bool {
	if owner == reasons.Agent {
		return node.Foreign(record)
	}
	return record.Drained()
}
